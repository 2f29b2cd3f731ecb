// Circuit switches: the accuracy measured for a set of heads of two layers, and where a head of layer 2 then looks.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const CELL = { least: 9, most: 21 }; // pixels
const LETTER = 8; // pixels, about the width of a letter in the labels
const FULL = 255; // a weight of 1, as it is sent
const EDGE = 5; // pixels around the map, room for its frames
const SHOWN_FROM = 0.005; // a weight below this is 0.00 in digits and gets no frame

const percent = (share) => `${(100 * share).toFixed(1)}%`;
const bytesOf = (part) => new Uint8Array(part.buffer ?? part, part.byteOffset ?? 0, part.byteLength);

/** For each position the places after an earlier copy of its token. */
const stripeOf = (tokens) => tokens.map((token, t) => upTo(t).map((j) => j + 1).filter((j) => tokens[j - 1] === token));

/** One map, T rows of T weights, out of whole numbers. */
const readMap = (raw, number, length) =>
  upTo(length).map((t) => {
    const start = (number * length + t) * length;
    return [...raw.subarray(start, start + length)].map((steps) => steps / FULL);
  });

/** The weight that a row has on the stripe, and the mean of all rows that have one. */
const onStripe = (weights, stripe, t) => total(stripe[t].map((j) => weights[t][j]));
function meanOnStripe(weights, stripe) {
  const rows = upTo(stripe.length).filter((t) => stripe[t].length);
  return total(rows.map((t) => onStripe(weights, stripe, t))) / rows.length;
}

/** The map: a list box whose options are the positions. The area of a square is its weight. */
function pattern({ here, tokens, stripe, onPick }) {
  const { id, life } = here;
  const svg = takesKeys(
    shape("svg", {
      class: "attnlab-pattern",
      role: "listbox",
      tabindex: 0,
      "aria-label": "Positions of the string. Arrow up and down choose one.",
    }),
  );
  const rect = (kind, data = {}) => shape("rect", { class: `attnlab-${kind}`, ...data });
  const columns = tokens.map((token) => shape("text", { class: "attnlab-key" }, token));
  const across = shape("text", { class: "attnlab-key", y: 12 }, "looks at →");
  const chosenRow = rect("chosen-position");
  const rows = tokens.map((token, t) => {
    const name = shape("text", { class: "attnlab-query", "text-anchor": "end" }, token);
    const cells = upTo(t + 1).map((j) => ({ room: rect("room"), mark: rect("mark", { "data-row": t, "data-column": j }) }));
    const frames = stripe[t].map((j) => ({ j, node: rect("on-stripe") }));
    const parts = [name, ...cells.map(({ room }) => room), ...frames.map(({ node }) => node), ...cells.map(({ mark }) => mark)];
    const node = shape("g", { role: "option", id: `${id}-position-${t}` }, ...parts);
    return { node, name, cells, frames };
  });
  svg.append(
    shape("g", { "aria-hidden": "true" }, across, ...columns),
    ...rows.map(({ node }) => node),
    shape("g", { "aria-hidden": "true" }, chosenRow),
  );
  let size;

  function layOut(width) {
    const longest = LETTER * Math.max(...tokens.map((token) => token.length));
    const left = longest + 8;
    const cell = clamp(Math.floor((width - left - EDGE) / tokens.length), CELL.least, CELL.most);
    const upright = longest > cell + 2;
    const top = (upright ? longest : 12) + 22;
    size = { left, cell, top };
    fill(svg, { width: left + tokens.length * cell + EDGE, height: top + tokens.length * cell + EDGE }, []);
    svg.style.fontSize = `${Math.min(12, cell)}px`;
    across.setAttribute("x", left);
    const square = (node, t, j, side) => {
      const [x, y] = [left + (j + 0.5) * cell - side / 2, top + (t + 0.5) * cell - side / 2];
      fill(node, { x: x.toFixed(2), y: y.toFixed(2), width: side.toFixed(2), height: side.toFixed(2) }, []);
    };
    size.square = square;
    columns.forEach((label, j) => {
      const [x, y] = [left + (j + 0.5) * cell, top - 5];
      const turned = { transform: `rotate(-90 ${x} ${y})`, "text-anchor": "start", dy: "0.35em" };
      fill(label, { x, y, ...(upright ? turned : { transform: "rotate(0)", "text-anchor": "middle", dy: 0 }) }, []);
    });
    rows.forEach(({ name, cells, frames }, t) => {
      fill(name, { x: left - 6, y: top + (t + 0.5) * cell, dy: "0.35em" }, []);
      cells.forEach(({ room }, j) => square(room, t, j, cell));
      for (const { j, node } of frames) square(node, t, j, cell - 1);
    });
  }

  function paint({ weights, chosen, isOn }) {
    const { left, cell, top, square } = size;
    rows.forEach(({ node, name, cells }, t) => {
      const there = stripe[t].length ? `${fixed(onStripe(weights, stripe, t))} on the stripe` : "no stripe";
      fill(node, { "aria-selected": String(t === chosen), "aria-label": `Position ${t + 1}, ${tokens[t]}: ${there}` }, []);
      name.classList.toggle("attnlab-chosen", t === chosen);
      cells.forEach(({ mark }, j) => {
        mark.dataset.weight = weights[t][j];
        square(mark, t, j, Math.sqrt(weights[t][j]) * (cell - 3));
      });
    });
    const off = cell < 16 ? 1 : 2;
    const place = { x: left - off, y: top + chosen * cell - off, width: (chosen + 1) * cell + 2 * off, height: cell + 2 * off };
    fill(chosenRow, { ...place, rx: 2, "stroke-width": off + 0.5 }, []);
    svg.classList.toggle("attnlab-silent", !isOn);
    svg.setAttribute("aria-activedescendant", `${id}-position-${chosen}`);
  }

  const point = ({ clientY }) =>
    onPick(clamp(Math.floor((clientY - svg.getBoundingClientRect().top - size.top) / size.cell), 0, tokens.length - 1));
  life.listen(svg, "pointerdown", (event) => {
    if (event.button !== 0) return;
    svg.setPointerCapture(event.pointerId);
    point(event);
  });
  life.listen(svg, "pointermove", (event) => svg.hasPointerCapture(event.pointerId) && point(event));
  return { svg, layOut, paint };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Circuit switches", kind: "circuit" });
  const { life } = here;
  const tokens = model.get("tokens");
  const [first, second] = model.get("heads");
  const measured = floats(model.get("measured"));
  const raw = bytesOf(model.get("maps"));
  const stripe = stripeOf(tokens);
  const every = 2 ** (first + second) - 1;
  const mapOf = (set, head) => readMap(raw, (set % 2 ** first) * second + head, tokens.length);
  const even = meanOnStripe(tokens.map((_, t) => tokens.map(() => 1 / (t + 1))), stripe);
  const names = upTo(first + second).map((h) => (h < first ? `head ${h + 1} of layer 1` : `head ${h - first + 1} of layer 2`));
  const isOn = (h, set = model.get("heads_on")) => (set >> h) % 2 === 1;
  const layers = [upTo(first), upTo(second).map((g) => first + g)];
  const offIn = (layer, set) => layers[layer].flatMap((h, i) => (isOn(h, set) ? [] : [i + 1]));
  const offText = (set) => {
    const parts = [0, 1].map((layer) => {
      const off = offIn(layer, set);
      return off.length && `${off.length > 1 ? "heads" : "head"} ${enumerated(off)} of layer ${layer + 1}`;
    });
    return enumerated(parts.filter(Boolean)) || "none";
  };
  let weights, before;
  const compute = () => {
    weights = mapOf(model.get("heads_on"), model.get("head"));
    before = mapOf(every, model.get("head"));
  };
  compute();

  const switches = names.map((name, h) => {
    const one = checkbox({
      stage: here,
      label: name.replace(/ of.*/, ""),
      onChange: (on) => here.set("heads_on", on ? model.get("heads_on") | (1 << h) : model.get("heads_on") & ~(1 << h)),
    });
    fill(one.input, { "data-head": h, "aria-label": name }, []);
    return one;
  });
  const group = (layer, some) => {
    const name = element("span", { class: "attnlab-circuit-layer-name", id: here.nextId() }, `Layer ${layer}`);
    const nodes = some.map(({ node }) => node);
    return element("div", { class: "attnlab-circuit-layer", role: "group", "aria-labelledby": name.id }, name, ...nodes);
  };
  const all = button({ stage: here, label: "All on", text: "All on", onPress: () => here.set("heads_on", every) });
  const none = button({ stage: here, label: "All off", text: "All off", onPress: () => here.set("heads_on", 0) });
  const head = choice({
    stage: here,
    label: "Map of",
    options: upTo(second).map((g) => [g, names[first + g]]),
    onChange: (value) => here.set("head", Number(value)),
  });
  head.input.dataset.trait = "head";
  const pick = (t) => t !== model.get("row") && here.set("row", t);
  const step = (by) => pick(clamp(model.get("row") + by, 0, tokens.length - 1));
  const map = pattern({ here, tokens, stripe, onPick: pick });
  const results = element("ol", { class: "attnlab-bars attnlab-results", "aria-label": "What is left" });
  const title = element("p", { class: "attnlab-title" });
  const bars = element("ol", { class: "attnlab-bars", "aria-label": "Weights of the chosen position" });
  const mapFact = element("p", { class: "attnlab-fact attnlab-head-state" });
  const previous = button({ stage: here, label: "Previous position", text: "▲", onPress: () => step(-1) });
  const next = button({ stage: here, label: "Next position", text: "▼", onPress: () => step(1) });
  const fact = (text) => element("p", { class: "attnlab-fact" }, text);
  const frame = element("div", { class: "attnlab-pattern-frame" }, map.svg);
  const tables = [
    valueTable({
      stage: here,
      summary: "All sets of heads as a table",
      content: () => ({
        caption: `Measured accuracy, and the mean weight on the stripe of each head of layer 2. Spread evenly it would be ${fixed(even)}.`,
        columns: ["Off in layer 1", "off in layer 2", "accuracy", ...upTo(second).map((g) => `stripe, head ${g + 1}`)],
        rows: upTo(every + 1)
          .reverse()
          .map((set) => [
            (enumerated(offIn(0, set)) || "none") + (set === model.get("heads_on") ? " (now)" : ""),
            enumerated(offIn(1, set)) || "none",
            measured[set].toFixed(4),
            ...upTo(second).map((g) => fixed(meanOnStripe(mapOf(set, g), stripe))),
          ]),
      }),
    }),
    valueTable({
      stage: here,
      summary: "This map as a table",
      content: () => ({
        caption: `Weights of ${names[first + model.get("head")]}. Off: ${offText(model.get("heads_on"))}. Each row sums to 1, up to rounding.`,
        columns: ["Position", ...tokens.map((token, j) => `${j + 1} ${token}`)],
        rows: weights.map((row, t) => [
          `${t + 1} ${tokens[t]}`,
          ...row.map((weight, j) => (j > t ? "" : fixed(weight) + (stripe[t].includes(j) ? " *" : ""))),
        ]),
      }),
    }),
  ];
  here.add(
    element(
      "div",
      { class: "attnlab-controls" },
      ...layers.map((layer, i) => group(i + 1, layer.map((h) => switches[h]))),
      element("div", { class: "attnlab-all-heads" }, all, none),
    ),
    results,
    element(
      "div",
      { class: "attnlab-circuit-columns" },
      element(
        "div",
        {},
        head.node,
        frame,
        mapFact,
        fact("The area of a square is the weight. Framed: the stripe, the places after an earlier copy of the row's symbol."),
      ),
      element("div", {}, element("div", { class: "attnlab-chooser" }, title, previous, next), bars),
    ),
    fact(
      `Accuracy: measured for exactly this set of heads. On stripe: the weight in the framed cells of this map, the mean of the rows that have one; spread evenly it would be ${fixed(even)}. Frames on bars: all heads on.`,
    ),
    ...tables.map(({ node }) => node),
  );

  let laidOut = 0;
  function draw() {
    if (frame.clientWidth !== laidOut) {
      laidOut = frame.clientWidth;
      map.layOut(laidOut - 2 * EDGE);
    }
    const [set, t, g] = [model.get("heads_on"), model.get("row"), model.get("head")];
    switches.forEach((one, h) => one.set(isOn(h)));
    head.set(g);
    map.paint({ weights, chosen: t, isOn: isOn(first + g) });
    const changed = (value) => (set === every ? undefined : value);
    const [share, mean] = [measured[set], meanOnStripe(weights, stripe)];
    const lines = [
      weightBar("accuracy", share, false, changed(measured[every])),
      weightBar("on stripe", mean, false, changed(meanOnStripe(before, stripe))),
    ];
    lines[0].querySelector(".attnlab-bar-number").textContent = percent(share);
    lines.forEach((line, i) => (line.dataset.share = [share, mean][i]));
    results.replaceChildren(...lines);
    title.textContent = `Position ${t + 1}, ${tokens[t]}, looks at`;
    bars.replaceChildren(
      ...upTo(t + 1).map((j) =>
        weightBar(`${j + 1} ${tokens[j]}`, weights[t][j], stripe[t].includes(j), before[t][j] < SHOWN_FROM ? undefined : changed(before[t][j])),
      ),
    );
    mapFact.textContent = isOn(first + g)
      ? "This head is on: it hands over what it finds."
      : "This head is off: it looks as before, but its mean is handed over instead. Its squares are hollow.";
    previous.setAttribute("aria-disabled", t === 0); // not `disabled`, which would take the focus away
    next.setAttribute("aria-disabled", t === tokens.length - 1);
    Object.assign(here.root.dataset, { on: set, map: g, position: t });
    for (const table of tables) table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => {
    const set = model.get("heads_on");
    return `Off: ${offText(set)}. Accuracy ${percent(measured[set])}. Stripe of ${names[first + model.get("head")]}: ${fixed(meanOnStripe(weights, stripe))}.`;
  };
  const rowInWords = () => {
    const t = model.get("row");
    const best = weights[t].indexOf(Math.max(...weights[t]));
    const most = `most weight on ${best + 1}, ${tokens[best]}: ${fixed(weights[t][best])}`;
    return `Position ${t + 1}, ${tokens[t]}: ${most}${stripe[t].length ? `; on the stripe ${fixed(onStripe(weights, stripe, t))}` : ""}.`;
  };
  life.watch(model, ["heads_on", "head"], () => (compute(), redraw(), here.announce(inSentences)));
  life.watch(model, ["row"], () => (redraw(), here.announce(rowInWords)));
  life.onResize(frame, redraw);
  life.listen(map.svg, "keydown", (event) => {
    const t = model.get("row");
    const to = { ArrowUp: t - 1, ArrowDown: t + 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    pick(clamp(to, 0, tokens.length - 1));
  });
  draw();
  return here.remove;
}

export default { render };

// Map explorer: all attention maps of a model as small multiples, and one of them opened. Means over heads and attention
// rollout are computed here in float64. Names that are not defined here come from ../_shared.js, which stands before it.

const MOST_BARS = 16; // longer rows show their largest weights alone
const UNIT = 6; // of a small map's own measure, the side of a cell
const LEVELS = 20; // of opacity in a small map
const CELL = { least: 13, most: 40, withNumber: 26 }; // pixels
const LETTER = 7.6; // pixels, about the width of a letter in the labels
const LETTERS = 10; // of a label; longer ones are cut
const SAME = 1e-9; // sums that differ by rounding alone count as equal

const shortened = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);
const largestAt = (row) => row.reduce((best, weight, j) => (weight > row[best] ? j : best), 0);

/** Float32 weights, or bytes that are 255ths of them. */
function unpack(bytes, count) {
  if (bytes.byteLength === 4 * count) return floats(bytes);
  return Float64Array.from(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, count), (part) => part / 255);
}

const meanOf = (maps) => maps[0].map((row, i) => row.map((_, j) => total(maps.map((map) => map[i][j])) / maps.length));

/** One layer more of rollout: half the mean map and half the identity, times the flow from below. */
const flowOn = (mean, flow) =>
  mean.map((row, i) =>
    row.map((_, k) => total(row.map((weight, j) => ((weight + (i === j ? 1 : 0)) / 2) * flow[j][k]))),
  );

/** The key that gets most in a map, and its share of all weight there. */
function getsMost(rows) {
  const received = rows[0].map((_, j) => total(rows.map((row) => row[j])));
  const most = Math.max(...received);
  const key = received.findIndex((sum) => sum >= most - SAME);
  return { key, share: received[key] / (total(received) || 1) };
}

/** For each layer its maps: the heads, their mean and, where keys are queries, rollout up to the layer. */
function layersOf(model) {
  const [L, H, Q, K] = model.get("shape");
  const flat = unpack(model.get("weights"), L * H * Q * K);
  const rowAt = (start) => Array.from(flat.subarray(start, start + K));
  let flow = upTo(K).map((i) => upTo(K).map((j) => (i === j ? 1 : 0)));
  return upTo(L).map((l) => {
    const heads = upTo(H).map((h) => upTo(Q).map((i) => rowAt(((l * H + h) * Q + i) * K)));
    const mean = meanOf(heads);
    const of = `Layer ${l + 1}`;
    const maps = heads.map((rows, h) => {
      const text = `head ${h + 1}`;
      return { shown: "head", head: h, text, name: `${of}, ${text}`, rows };
    });
    maps.push({ shown: "mean", text: "mean", name: `${of}, mean over ${H} ${H === 1 ? "head" : "heads"}`, rows: mean });
    if (!model.get("key_tokens").length) {
      flow = flowOn(mean, flow);
      const name = l ? `Rollout through layers 1 to ${l + 1}` : "Rollout through layer 1";
      maps.push({ shown: "rollout", text: "rollout", name, rows: flow });
    }
    return maps.map((map) => ({ ...map, most: getsMost(map.rows) }));
  });
}

/** What the mask hides, as a function of a map, a query and a key. What rollout reaches all the same is not hidden. */
function hiddenBy(model) {
  const bytes = model.get("mask");
  const allowed = new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength);
  const K = model.get("shape")[3];
  return ({ rows }, i, j) => allowed.length > 0 && !allowed[i * K + j] && rows[i][j] === 0;
}

/** A small map: a path for each level of opacity, so that colours come from the style sheet; a mark under its top key. */
function smallMap(map, hidden, hatch) {
  const paths = new Map();
  map.rows.forEach((row, i) =>
    row.forEach((weight, j) => {
      const level = hidden(map, i, j) ? "hidden" : Math.round(LEVELS * weight);
      if (level) paths.set(level, `${paths.get(level) ?? ""}M${UNIT * j} ${UNIT * i}h${UNIT}v${UNIT}h-${UNIT}z`);
    }),
  );
  const [wide, high] = [UNIT * map.rows[0].length, UNIT * map.rows.length];
  const mark = 0.11 * Math.max(wide, high);
  const x = UNIT * (map.most.key + 0.5);
  return shape(
    "svg",
    { viewBox: `${-mark / 2} -1 ${wide + mark} ${high + 2 + 1.3 * mark}`, "aria-hidden": "true", focusable: "false" },
    ...Array.from(paths, ([level, d]) =>
      level === "hidden"
        ? shape("path", { d, fill: hatch })
        : shape("path", { class: "attnlab-maps-ink", d, "fill-opacity": level / LEVELS }),
    ),
    shape("rect", { class: "attnlab-maps-edge", width: wide, height: high }),
    shape("path", { class: "attnlab-maps-mark", d: `M${x} ${high + 0.2 * mark}l${0.6 * mark} ${mark}h${-1.2 * mark}z` }),
  );
}

/** All small maps: a row for each layer, a button for each map. Arrow keys open the next one. */
function overview({ here, layers, hidden, hatch, inWords, open }) {
  const head = (text = "") => element("span", { class: "attnlab-maps-head", "aria-hidden": "true" }, text);
  const buttons = layers.map((maps, l) =>
    maps.map((map, place) => {
      const text = smallMap(map, hidden, hatch);
      const node = button({ stage: here, label: inWords(map), text, onPress: () => open(l, place) });
      Object.assign(node.dataset, { layer: l, place });
      return node;
    }),
  );
  const columns = layers[0].length;
  const node = element(
    "div",
    { class: "attnlab-maps-all", role: "group", "aria-label": "All maps. Arrow keys open the next one." },
    head(),
    ...layers[0].map(({ text }) => head(text)),
    ...buttons.flatMap((line, l) => [head(`layer ${l + 1}`), ...line]),
  );
  node.style.setProperty("--columns", columns);
  here.life.listen(node, "keydown", (event) => {
    const at = event.target.closest("button");
    const by = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      Home: [0, -columns],
      End: [0, columns],
    }[event.key];
    if (!at || !by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const l = clamp(Number(at.dataset.layer) + by[0], 0, layers.length - 1);
    const place = clamp(Number(at.dataset.place) + by[1], 0, columns - 1);
    open(l, place);
    buttons[l][place].focus();
  });
  return {
    node: element("div", { class: "attnlab-maps-scroll" }, node),
    paint: (layer, chosen) =>
      buttons.forEach((line, l) =>
        line.forEach((one, place) => {
          const isOpen = l === layer && place === chosen;
          one.setAttribute("aria-pressed", String(isOpen));
          one.tabIndex = isOpen ? 0 : -1;
        }),
      ),
  };
}

/** The opened map: a list box whose options are the rows, one for each query. */
function openedMap({ here, queries, keys, onPick }) {
  const { id, life } = here;
  const label = "Queries. Arrow up and down choose a query, left and right a key.";
  const svg = takesKeys(shape("svg", { class: "attnlab-maps-open", role: "listbox", tabindex: 0, "aria-label": label }));
  const lines = { width: UNIT, height: UNIT, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const stroke = shape("line", { class: "attnlab-maps-hatch", x1: 0, x2: 0, y1: 0, y2: UNIT });
  const heads = shape("g", { "aria-hidden": "true" });
  const [rowFrame, cellFrame, mark] = [["rect", "row"], ["rect", "cell"], ["path", "mark"]].map(([tag, kind]) =>
    shape(tag, { class: `attnlab-maps-${kind}`, "aria-hidden": "true" }),
  );
  const rows = queries.map((_, i) => {
    const name = shape("text", { class: "attnlab-maps-query", "text-anchor": "end" });
    const cells = keys.map((_, j) => [
      shape("rect", { class: "attnlab-maps-ink", "data-key": j }),
      shape("text", { class: "attnlab-maps-number", "text-anchor": "middle" }),
    ]);
    const boxes = cells.map(([box]) => box);
    return { name, cells, node: shape("g", { role: "option", id: `${id}-row-${i}`, "data-row": i }, ...boxes) };
  });
  svg.append(
    shape("defs", {}, shape("pattern", { id: `${id}-hatch`, ...lines }, stroke)),
    heads,
    ...rows.map(({ node }) => node),
    // What is read in a row stands apart from its option, whose name says the same in words.
    shape("g", { "aria-hidden": "true" }, ...rows.flatMap(({ name, cells }) => [name, ...cells.map(([, text]) => text)])),
    rowFrame,
    cellFrame,
    mark,
  );
  let left, top, cell;
  const wideOf = (texts) => LETTER * Math.max(...texts.map((text) => shortened(text).length));

  function layOut(width) {
    left = Math.max(24, wideOf(queries) + 12);
    cell = clamp(Math.floor((width - left - 4) / keys.length), CELL.least, CELL.most);
    const upright = wideOf(keys) > cell; // labels that are wider than a column stand on end
    top = 24 + (upright ? wideOf(keys) + 6 : 20);
    fill(svg, { width: left + keys.length * cell + 4, height: top + queries.length * cell + 26 }, []);
    heads.replaceChildren(
      shape("text", { class: "attnlab-maps-query", x: 0, y: 13 }, "queries ↓"),
      shape("text", { class: "attnlab-maps-key", x: Math.max(left, 76), y: 13 }, "keys →"),
      ...keys.map((text, j) => {
        const [x, y] = [left + (j + 0.5) * cell, top - 7];
        const turned = upright ? { x: x + 4, y, transform: `rotate(-90 ${x + 4} ${y})` } : { x, y, "text-anchor": "middle" };
        return shape("text", { class: "attnlab-maps-key", "data-key": j, ...turned }, shortened(text));
      }),
    );
    rows.forEach(({ name, cells }, i) => {
      const y = top + i * cell;
      fill(name, { x: left - 8, y: y + cell / 2 + 4.5 }, []);
      name.textContent = shortened(queries[i]);
      cells.forEach(([box, number], j) => {
        fill(box, { x: left + j * cell, y, width: cell - 1, height: cell - 1 }, []);
        fill(number, { x: left + (j + 0.5) * cell - 0.5, y: y + cell / 2 + 4 }, []);
      });
    });
  }

  function paint({ map, hidden, row, key, inWords }) {
    rows.forEach(({ node, name, cells }, i) => {
      fill(node, { "aria-selected": String(i === row), "aria-label": inWords(i) }, []);
      name.classList.toggle("attnlab-maps-chosen", i === row);
      cells.forEach(([box, number], j) => {
        const weight = map.rows[i][j];
        const isHidden = hidden(map, i, j);
        box.dataset.weight = weight;
        box.toggleAttribute("data-hidden", isHidden);
        box.style.fill = isHidden ? `url(#${id}-hatch)` : "";
        box.style.fillOpacity = isHidden ? 1 : weight;
        number.textContent = cell < CELL.withNumber || weight < 0.005 ? "" : weight.toFixed(2).replace(/^0/, "");
        number.classList.toggle("attnlab-maps-on-dark", weight >= LIGHT_INK_FROM);
      });
    });
    heads.querySelectorAll("[data-key]").forEach((text, j) => text.classList.toggle("attnlab-maps-chosen", j === key));
    fill(rowFrame, { x: left - 2, y: top + row * cell - 2, width: keys.length * cell + 3, height: cell + 3, rx: 3 }, []);
    fill(cellFrame, { x: left + key * cell - 0.5, y: top + row * cell - 0.5, width: cell, height: cell }, []);
    mark.setAttribute("d", `M${left + (map.most.key + 0.5) * cell - 0.5} ${top + queries.length * cell + 5}l8 13h-16z`);
    svg.setAttribute("aria-activedescendant", `${id}-row-${row}`);
  }

  const point = ({ clientX, clientY }) => {
    const box = svg.getBoundingClientRect();
    const place = (offset, start, count) => clamp(Math.floor((offset - start) / cell), 0, count - 1);
    onPick(place(clientY - box.top, top, queries.length), place(clientX - box.left, left, keys.length));
  };
  life.listen(svg, "pointerdown", (event) => {
    if (event.button !== 0) return;
    svg.setPointerCapture(event.pointerId);
    point(event);
  });
  life.listen(svg, "pointermove", (event) => svg.hasPointerCapture(event.pointerId) && point(event));
  return { svg, hatch: `url(#${id}-hatch)`, layOut, paint };
}

/** The chosen row as bars; a long one shows its largest weights and one line for the rest. */
function rowBars(row, seen, nameOf, chosen) {
  const bySize = [...seen].sort((a, b) => row[b] - row[a]);
  const kept = seen.length <= MOST_BARS ? seen : seen.filter((j) => bySize.indexOf(j) < MOST_BARS - 1);
  const lines = kept.map((j) => {
    const line = weightBar(nameOf(j), row[j], j === chosen);
    Object.assign(line.dataset, { key: j, weight: row[j] });
    return line;
  });
  const rest = seen.filter((j) => !kept.includes(j));
  if (rest.length) lines.push(weightBar(`${rest.length} others`, total(rest.map((j) => row[j])), false));
  const masked = row.length - seen.length;
  const told = `${masked} ${masked === 1 ? "key is" : "keys are"} masked out`;
  if (masked) lines.push(element("li", { class: "attnlab-masked" }, told));
  return lines;
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Map explorer", kind: "maps" });
  const { life } = here;
  const [L, H, Q, K] = model.get("shape");
  const queries = model.get("query_tokens");
  const keys = model.get("key_tokens").length ? model.get("key_tokens") : queries;
  const layers = layersOf(model);
  const hidden = hiddenBy(model);
  const queryAt = (i) => `“${queries[i]}” at ${i + 1}`;
  const keyAt = (j) => `“${keys[j]}” at ${j + 1}`;
  let column = null; // the key that was chosen; the largest of the row until one is

  const place = () => ({ head: model.get("head"), mean: H, rollout: H + 1 })[model.get("shown")];
  const now = () => layers[model.get("layer")][place()];
  const seenBy = (map, i) => upTo(K).filter((j) => !hidden(map, i, j));
  const rounded = model.get("weights").byteLength === L * H * Q * K ? " Weights are rounded to 255ths." : "";
  const keyNow = () => column ?? largestAt(now().rows[model.get("row")]);
  const mostIn = ({ most }) => `${keyAt(most.key)} gets most, ${(100 * most.share).toFixed(0)}% of all weight`;
  const rowInWords = (map, i) => {
    const best = largestAt(map.rows[i]);
    const all = total(map.rows[i]);
    return all ? `${queryAt(i)}: most weight on ${keyAt(best)}, ${map.rows[i][best].toFixed(2)}` : `${queryAt(i)} sees no key`;
  };
  const cellInWords = (map, i, j) =>
    `${queryAt(i)} to ${keyAt(j)}: ${hidden(map, i, j) ? "masked out" : map.rows[i][j].toFixed(4)}`;

  function open(l, at) {
    const { shown, head } = layers[l][at];
    model.set("layer", l);
    if (head !== undefined) model.set("head", head);
    here.set("shown", shown);
  }
  function pick(i, j) {
    column = j;
    if (i !== model.get("row")) here.set("row", i);
    redraw();
    tell();
  }
  const step = (by) => pick(clamp(model.get("row") + by, 0, Q - 1), null);

  const big = openedMap({ here, queries, keys, onPick: pick });
  const kinds = [
    ["head", "one head"],
    ["mean", "mean over heads"],
    ["rollout", "rollout"],
  ];
  const shown = choice({
    stage: here,
    label: "Show",
    options: kinds.slice(0, layers[0].length - H + 1),
    onChange: (kind) => here.set("shown", kind),
  });
  const inName = (map) => `${map.name}: ${mostIn(map)}`;
  const all = overview({ here, layers, hidden, hatch: big.hatch, inWords: inName, open });
  const masked = model.get("mask").byteLength ? " Hatched: masked out." : "";
  const title = element("p", { class: "attnlab-maps-title" });
  const most = element("p", { class: "attnlab-fact" });
  const chosen = element("p", { class: "attnlab-title" });
  const fact = element("p", { class: "attnlab-fact" });
  const bars = element("ol", { class: "attnlab-bars", "aria-label": "Weights of the chosen query" });
  const across = element("ol", { class: "attnlab-bars", "aria-label": "The chosen cell in all maps of the layer" });
  const previous = button({ stage: here, label: "Previous query", text: "▲", onPress: () => step(-1) });
  const next = button({ stage: here, label: "Next query", text: "▼", onPress: () => step(1) });
  const frame = element("div", { class: "attnlab-maps-frame" }, big.svg);
  const values = valueTable({
    stage: here,
    summary: "This map as a table",
    content: () => ({
      caption: `${now().name}: each row is a query, each column a key.${rounded}`,
      columns: ["Query", ...upTo(K).map(keyAt)],
      rows: now().rows.map((row, i) => [
        queryAt(i),
        ...row.map((weight, j) => (hidden(now(), i, j) ? "masked" : weight.toFixed(4))),
      ]),
    }),
  });
  const tops = valueTable({
    stage: here,
    summary: "All maps as a table",
    content: () => ({
      caption: `The key that gets most in each map, and the weights of ${queryAt(model.get("row"))} to ${keyAt(keyNow())}.`,
      columns: ["Map", "Gets most", "Share", "Weight"],
      rows: layers.flat().map((map) => [
        map.name,
        keyAt(map.most.key),
        map.most.share.toFixed(4),
        map.rows[model.get("row")][keyNow()].toFixed(4),
      ]),
    }),
  });
  here.add(
    all.node,
    element("p", { class: "attnlab-fact" }, `Open a map. ▲ under it: the key that gets most.${masked}`),
    element("div", { class: "attnlab-maps-heading" }, element("div", {}, title, most), shown.node),
    element(
      "div",
      { class: "attnlab-maps-columns" },
      frame,
      element("div", {}, element("div", { class: "attnlab-chooser" }, chosen, previous, next), bars, fact, across),
    ),
    values.node,
    tops.node,
  );

  let laidOut = 0;
  function draw() {
    const [map, l, i, j] = [now(), model.get("layer"), model.get("row"), keyNow()];
    if (frame.clientWidth !== laidOut) {
      laidOut = frame.clientWidth;
      big.layOut(laidOut - 12);
    }
    shown.set(model.get("shown"));
    all.paint(l, place());
    big.paint({ map, hidden, row: i, key: j, inWords: (row) => rowInWords(map, row) });
    title.textContent = map.name;
    most.textContent = `▲ ${mostIn(map)}.`;
    chosen.textContent = `${queryAt(i)} of ${Q}`;
    bars.replaceChildren(...rowBars(map.rows[i], seenBy(map, i), keyAt, j));
    fact.textContent = `${queryAt(i)} to ${keyAt(j)}${hidden(map, i, j) ? " (masked out)" : ""}, in every map of layer ${l + 1}:`;
    across.replaceChildren(
      ...layers[l].map((one) => {
        const line = weightBar(one.text, one.rows[i][j], one === map);
        line.dataset.weight = one.rows[i][j];
        return line;
      }),
    );
    previous.setAttribute("aria-disabled", i === 0); // not `disabled`, which would take the focus away
    next.setAttribute("aria-disabled", i === Q - 1);
    Object.assign(here.root.dataset, { layer: l, place: place(), row: i, key: j, share: map.most.share });
    values.refresh();
    tops.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inWords = () => {
    const [map, i] = [now(), model.get("row")];
    return `${map.name}. ${column === null ? rowInWords(map, i) : cellInWords(map, i, column)}.`;
  };
  const tell = () => here.announce(inWords);
  life.watch(model, ["layer", "head", "shown", "row"], () => (redraw(), tell()));
  life.onResize(frame, redraw);
  life.listen(big.svg, "keydown", (event) => {
    const [i, j] = [model.get("row"), keyNow()];
    const moves = {
      ArrowUp: [i - 1, null],
      ArrowDown: [i + 1, null],
      Home: [0, null],
      End: [Q - 1, null],
      ArrowLeft: [i, j - 1],
      ArrowRight: [i, j + 1],
    };
    const move = moves[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    pick(clamp(move[0], 0, Q - 1), move[1] === null ? null : clamp(move[1], 0, K - 1));
  });
  draw();
  return here.remove;
}

export default { render };

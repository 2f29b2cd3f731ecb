// Attention explorer: softmax(Q Kᵀ / (√d_k · temperature)), computed here in float64 from the float32 numbers of the model.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const MOST_BARS = 16; // longer rows show their largest weights alone
const PADDING = 6; // pixels around the matrix, room for its outline when it has the focus
const CELL = { least: 13, most: 44, withNumber: 26 }; // pixels
const STACKED_FROM = 17; // tokens from which the matrix gets the whole width
const LEAN = Math.PI / 3; // of the labels over wide columns
const STEEP_BELOW = 26; // pixels of a column from which its label stands upright
const LETTER = 7.4; // pixels, about the width of a letter in the labels

/** q·k and weights of one head, as arrays of T rows of T numbers. */
function attend({ query, key, length, width, head, dimensions, divisor, causal }) {
  const start = head * length * width;
  const products = [];
  const weights = [];
  for (let i = 0; i < length; i++) {
    const product = new Float64Array(length);
    for (let j = 0; j < length; j++) {
      for (let d = 0; d < dimensions; d++) product[j] += query[start + i * width + d] * key[start + j * width + d];
    }
    const allowed = causal ? i + 1 : length;
    let largest = -Infinity;
    for (let j = 0; j < allowed; j++) largest = Math.max(largest, product[j] / divisor);
    // The largest score is taken off first: exp of a large number would overflow, and the shares stay the same.
    const row = product.map((value, j) => (j < allowed ? Math.exp(value / divisor - largest) : 0));
    const sum = row.reduce((total, value) => total + value, 0);
    products.push(product);
    weights.push(row.map((value) => value / sum));
  }
  return { products, weights };
}

const entropy = (row) => row.reduce((total, weight) => (weight > 0 ? total - weight * Math.log(weight) : total), 0);
const largestAt = (row) => row.reduce((best, weight, j) => (weight > row[best] ? j : best), 0);
const share = (weight) => weight.toFixed(2);
const shorten = (text, letters) => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text);

/** Sizes of the matrix for a width: cells as large as fit, labels as long as they may be. */
function measure(tokens, width) {
  const longest = Math.max(...tokens.map((token) => token.length));
  const left = Math.min(Math.max(LETTER * longest + 14, 74), Math.max(74, 0.27 * width));
  const letters = Math.floor((left - 14) / LETTER) + 1;
  const labels = tokens.map((token) => Math.min(token.length, letters) * LETTER);
  const fit = (room) => clamp(Math.floor((room - left - 2) / tokens.length), CELL.least, CELL.most);
  // Labels of wide columns lean to the right, the last ones over the edge of the matrix.
  const over = (cell) =>
    Math.max(0, ...labels.map((label, j) => label * Math.cos(LEAN) + 10 - (tokens.length - j - 0.5) * cell));
  const leaning = fit(width - over(fit(width)));
  const steep = leaning < STEEP_BELOW;
  const cell = steep ? fit(width) : leaning;
  return {
    left,
    cell,
    steep,
    letters,
    top: Math.max(...labels) * (steep ? 1 : Math.sin(LEAN)) + 30,
    width: left + tokens.length * cell + (steep ? 0 : over(cell)) + 2,
    get height() {
      return this.top + tokens.length * cell + 2;
    },
  };
}

/** The matrix: a list box whose options are the rows, one for each query. */
function matrix({ here, tokens, onPick }) {
  const { id, life } = here;
  const svg = takesKeys(
    shape("svg", {
      class: "attnlab-matrix",
      role: "listbox",
      tabindex: 0,
      "aria-label": "Queries. Arrow up and down choose a query, left and right a key.",
    }),
  );
  const hatch = shape(
    "pattern",
    { id: `${id}-hatch`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("line", { class: "attnlab-hatch", x1: 0, x2: 0, y1: 0, y2: 6 }),
  );
  const columns = shape("g", { "aria-hidden": "true" });
  const marks = shape("g", { class: "attnlab-marks", "aria-hidden": "true" });
  const frame = shape("rect", { class: "attnlab-row-frame" });
  const target = shape("rect", { class: "attnlab-cell-frame" });
  marks.append(frame, target);
  const rows = tokens.map((token, i) => {
    const cells = tokens.map((_, j) => ({
      box: shape("rect", { class: "attnlab-cell", "data-key": j }),
      number: shape("text", { class: "attnlab-in-cell" }),
    }));
    const name = shape("text", { class: "attnlab-query" });
    const row = shape(
      "g",
      { role: "option", id: `${id}-row-${i}`, "data-row": i },
      name,
      ...cells.flatMap(({ box, number }) => [box, number]),
    );
    return { row, name, cells };
  });
  svg.append(shape("defs", {}, hatch), columns, ...rows.map(({ row }) => row), marks);
  let size;

  function layOut(width) {
    size = measure(tokens, width);
    const { left, top, cell, steep, letters } = size;
    svg.setAttribute("width", size.width);
    svg.setAttribute("height", size.height);
    columns.replaceChildren(
      shape("text", { class: "attnlab-axis-name attnlab-key", x: left, y: 13 }, "keys →"),
      shape("text", { class: "attnlab-axis-name attnlab-query", x: 0, y: top - 8 }, "queries ↓"),
      ...tokens.map((token, j) => {
        const x = left + (j + 0.5) * cell + (steep ? 4 : 2);
        return shape(
          "text",
          {
            class: "attnlab-key",
            "data-key": j,
            x,
            y: top - 7,
            transform: `rotate(${steep ? -90 : -60} ${x} ${top - 7})`,
          },
          shorten(token, letters),
        );
      }),
    );
    rows.forEach(({ name, cells }, i) => {
      const y = top + i * cell;
      fill(name, { x: left - 10, y: y + cell / 2 + 4.5, "text-anchor": "end" }, []);
      name.textContent = shorten(tokens[i], letters);
      cells.forEach(({ box, number }, j) => {
        fill(box, { x: left + j * cell, y, width: cell - 1, height: cell - 1, rx: cell > 20 ? 3 : 1 }, []);
        fill(number, { x: left + (j + 0.5) * cell - 0.5, y: y + cell / 2 + 4, "text-anchor": "middle" }, []);
      });
    });
  }

  function paint(weights, causal, chosen, column) {
    const { left, top, cell } = size;
    rows.forEach(({ row, name, cells }, i) => {
      const best = largestAt(weights[i]);
      row.setAttribute("aria-selected", String(i === chosen));
      row.setAttribute(
        "aria-label",
        `${tokens[i]}, query ${i + 1} of ${tokens.length}: most weight on ${tokens[best]}, ${share(weights[i][best])}`,
      );
      name.classList.toggle("attnlab-chosen", i === chosen);
      cells.forEach(({ box, number }, j) => {
        const weight = weights[i][j];
        const masked = causal && j > i;
        box.dataset.weight = weight;
        box.style.fill = masked ? `url(#${id}-hatch)` : "";
        box.style.fillOpacity = masked ? 1 : weight;
        number.textContent = cell < CELL.withNumber || masked ? "" : share(weight).replace(/^0/, "");
        number.classList.toggle("attnlab-on-dark", weight >= LIGHT_INK_FROM);
      });
    });
    columns
      .querySelectorAll("[data-key]")
      .forEach((label, j) => label.classList.toggle("attnlab-chosen", j === column));
    fill(
      frame,
      { x: left - 1.5, y: top + chosen * cell - 1.5, width: tokens.length * cell + 2, height: cell + 2, rx: 4 },
      [],
    );
    fill(
      target,
      { x: left + column * cell - 0.5, y: top + chosen * cell - 0.5, width: cell, height: cell, rx: 3 },
      [],
    );
    svg.setAttribute("aria-activedescendant", `${id}-row-${chosen}`);
  }

  const point = (event) => {
    const box = svg.getBoundingClientRect();
    const place = (offset, start) => clamp(Math.floor((offset - start) / size.cell), 0, tokens.length - 1);
    onPick(place(event.clientY - box.top, size.top), place(event.clientX - box.left, size.left));
  };
  life.listen(svg, "pointerdown", (event) => {
    if (event.button !== 0) return;
    svg.setPointerCapture(event.pointerId);
    point(event);
  });
  life.listen(svg, "pointermove", (event) => svg.hasPointerCapture(event.pointerId) && point(event));
  return { svg, layOut, paint };
}

/** The chosen row as bars with names and numbers; a long row shows its largest weights and one line for the rest. */
function barList() {
  const list = element("ol", { class: "attnlab-bars", "aria-label": "Weights of the chosen query" });
  function paint(tokens, row, causal, chosen, column) {
    const order = row.map((_, j) => j);
    const allowed = [...order.keys()].filter((j) => !(causal && j > chosen));
    const kept =
      allowed.length <= MOST_BARS
        ? allowed
        : [...allowed]
            .sort((a, b) => row[b] - row[a])
            .slice(0, MOST_BARS - 1)
            .sort((a, b) => a - b);
    const rest = allowed.filter((j) => !kept.includes(j));
    const lines = kept.map((j) => weightBar(tokens[j], row[j], j === column));
    if (rest.length)
      lines.push(
        weightBar(
          `${rest.length} others`,
          rest.reduce((total, j) => total + row[j], 0),
          false,
        ),
      );
    if (allowed.length < row.length) {
      const masked = row.length - allowed.length;
      lines.push(
        element(
          "li",
          { class: "attnlab-masked" },
          `${masked} later ${masked === 1 ? "token is" : "tokens are"} masked out`,
        ),
      );
    }
    list.replaceChildren(...lines);
  }
  return { list, paint };
}

/** The controls in the order of the formula, each tied to its trait. */
function controls({ here, heads, width }) {
  const set = here.set;
  const all = {
    temperature: slider({
      stage: here,
      label: "Temperature",
      min: 0.1,
      max: 4,
      step: 0.1,
      show: (value) => value.toFixed(1),
      onInput: (value) => set("temperature", value),
    }),
    dimensions: slider({
      stage: here,
      label: "Dimensions d_k",
      min: 1,
      max: width,
      show: (value) => `${value} of ${width}`,
      onInput: (value) => set("dimensions", value),
    }),
    scaled: checkbox({ stage: here, label: "Divide by √d_k", onChange: (on) => set("scaled", on) }),
    mask: choice({
      stage: here,
      label: "Mask",
      options: [
        ["none", "none"],
        ["causal", "causal"],
      ],
      onChange: (value) => set("mask", value),
    }),
    head: choice({
      stage: here,
      label: "Head",
      options: Array.from({ length: heads }, (_, i) => [i, `${i + 1} of ${heads}`]),
      onChange: (value) => set("head", Number(value)),
    }),
  };
  for (const [trait, { input }] of Object.entries(all)) input.dataset.trait = trait;
  const visible = Object.entries(all).filter(([trait]) => trait !== "head" || heads > 1);
  return { ...all, node: element("div", { class: "attnlab-controls" }, ...visible.map(([, { node }]) => node)) };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Attention explorer", kind: "attention" });
  const { life } = here;
  const tokens = model.get("tokens");
  const [heads, length, width] = model.get("shape");
  let query, key, products, weights;
  let column = null; // the key whose weight is explained; the largest of the row until one is chosen
  const load = () => ([query, key] = [floats(model.get("query")), floats(model.get("key"))]);
  load();

  const panel = controls({ here, heads, width });
  const pick = (row, keyColumn) => {
    column = keyColumn;
    if (row !== model.get("row")) here.set("row", row);
    redraw();
    tell();
  };
  const step = (by) => pick(clamp(model.get("row") + by, 0, length - 1), null);
  const grid = matrix({ here, tokens, onPick: pick });
  const bars = barList();
  const title = element("p", { class: "attnlab-title" });
  const rowFact = element("p", { class: "attnlab-fact" });
  const cellFact = element("p", { class: "attnlab-fact" });
  const table = valueTable({
    stage: here,
    summary: "Weights as a table",
    content: () => ({
      caption: "Each row is a query, each column a key; a row sums to 1.",
      columns: ["Query", ...tokens],
      rows: weights.map((row, i) => [
        tokens[i],
        ...[...row].map((weight, j) => (isMasked(i, j) ? "masked" : weight.toFixed(4))),
      ]),
    }),
  });
  const frame = element("div", { class: "attnlab-grid-frame" }, grid.svg);
  const previous = button({ stage: here, label: "Previous query", text: "▲", onPress: () => step(-1) });
  const next = button({ stage: here, label: "Next query", text: "▼", onPress: () => step(1) });
  const side = element(
    "div",
    { class: "attnlab-side" },
    element("div", { class: "attnlab-chooser" }, title, previous, next),
    bars.list,
    rowFact,
    cellFact,
  );
  here.add(
    panel.node,
    element("div", { class: `attnlab-columns${length < STACKED_FROM ? " attnlab-beside" : ""}` }, frame, side),
    table.node,
  );

  const isMasked = (i, j) => model.get("mask") === "causal" && j > i;
  const divisor = () => model.get("temperature") * (model.get("scaled") ? Math.sqrt(model.get("dimensions")) : 1);

  function compute() {
    const result = attend({
      query,
      key,
      length,
      width,
      head: model.get("head"),
      dimensions: model.get("dimensions"),
      divisor: divisor(),
      causal: model.get("mask") === "causal",
    });
    ({ products, weights } = result);
  }

  function facts(i) {
    const row = weights[i];
    const best = largestAt(row);
    const j = column ?? best;
    const allowed = model.get("mask") === "causal" ? i + 1 : length;
    const spread = entropy(row);
    const by = `${model.get("scaled") ? `√${model.get("dimensions")}` : "1"} × ${model.get("temperature").toFixed(1)}`;
    const scores = isMasked(i, j)
      ? `“${tokens[j]}” comes later and is masked out: weight 0.`
      : `q·k = ${readable(products[i][j], 4)}; divided by ${by}, that is ${readable(products[i][j] / divisor(), 3)}; weight ${row[j].toFixed(4)}.`;
    return {
      j,
      row: `Most weight on “${tokens[best]}”: ${share(row[best])}. Entropy ${share(spread)} of at most ${share(Math.log(allowed))} nats, as if spread evenly over ${readable(Math.exp(spread))} of ${allowed}.`,
      cell: `“${tokens[i]}” to “${tokens[j]}”: ${scores}`,
    };
  }

  let laidOut = 0;
  function draw() {
    if (frame.clientWidth !== laidOut) {
      laidOut = frame.clientWidth;
      grid.layOut(laidOut - 2 * PADDING);
    }
    const i = model.get("row");
    const causal = model.get("mask") === "causal";
    const fact = facts(i);
    for (const trait of ["temperature", "dimensions", "scaled", "mask", "head"]) panel[trait].set(model.get(trait));
    grid.paint(weights, causal, i, fact.j);
    bars.paint(tokens, [...weights[i]], causal, i, fact.j);
    title.textContent = `“${tokens[i]}”, ${i + 1} of ${length}`;
    rowFact.textContent = fact.row;
    cellFact.textContent = fact.cell;
    previous.setAttribute("aria-disabled", i === 0); // not `disabled`, which would take the focus away
    next.setAttribute("aria-disabled", i === length - 1);
    Object.assign(here.root.dataset, { row: i, key: fact.j, entropy: entropy(weights[i]) });
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => {
    const fact = facts(model.get("row"));
    return column === null ? `${tokens[model.get("row")]}. ${fact.row}` : fact.cell;
  };
  const tell = () => here.announce(inSentences);
  const renew = () => {
    compute();
    redraw();
    tell();
  };
  life.watch(model, ["temperature", "dimensions", "scaled", "mask", "head"], renew);
  life.watch(model, ["query", "key"], () => (load(), renew()));
  life.watch(model, ["row"], () => (redraw(), tell()));
  life.onResize(frame, redraw);
  life.listen(grid.svg, "keydown", (event) => {
    const i = model.get("row");
    const j = Number(here.root.dataset.key);
    const moves = {
      ArrowUp: [i - 1, null],
      ArrowDown: [i + 1, null],
      Home: [0, null],
      End: [length - 1, null],
      ArrowLeft: [i, j - 1],
      ArrowRight: [i, j + 1],
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    pick(clamp(move[0], 0, length - 1), move[1] === null ? null : clamp(move[1], 0, length - 1));
  });
  compute();
  draw();
  return here.remove;
}

export default { render };

// Mask painter: a softmax over the allowed keys of each row, computed here in float64 from the float32 scores.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const SQUARE = { least: 26, most: 48, gap: 2, withBit: 30 }; // pixels of a cell
const BESIDE = 58; // pixels for a row's name and sum
const STACKED_FROM = 10; // keys from which the board gets the whole width

/** Softmax over the allowed keys of a row. A row without any becomes zeros, before NaN can arise. */
function shareOut(scores, allowed) {
  const largest = Math.max(...scores.filter((_, j) => allowed[j]));
  const parts = scores.map((score, j) => (allowed[j] ? Math.exp(score - largest) : 0));
  const sum = total(parts);
  return parts.map((part) => (sum ? part / sum : 0));
}

/** The masks that have a name: for each its text and what it lets query i see, True = may attend. */
function presetsFor({ queries, keys, length, window }) {
  const self = (i) => i + keys - queries; // the last query stands at the last key
  const causal = (i, j) => j <= self(i);
  const real = (i, j) => j < length;
  const padded = length < keys;
  const near = (i, j) => causal(i, j) && j > self(i) - window && real(i, j);
  return [
    ["none", "none", () => true],
    ["causal", "causal", causal],
    ...(padded ? [["padding", "padding", real]] : []),
    ...(padded ? [["both", "causal and padding", (i, j) => causal(i, j) && real(i, j)]] : []),
    ["window", `window of ${window}${padded ? " and padding" : ""}`, near],
  ].map(([name, text, sees]) => ({
    name,
    text,
    bits: Uint8Array.from({ length: queries * keys }, (_, at) => Number(sees(Math.floor(at / keys), at % keys))),
  }));
}

/** Cells from one to another in a straight line, so that a fast stroke leaves no gap. */
function lineBetween([i, j], [toRow, toColumn]) {
  const steps = Math.max(Math.abs(toRow - i), Math.abs(toColumn - j), 1);
  const between = (from, to, step) => Math.round(from + ((to - from) * step) / steps);
  return upTo(steps + 1).map((step) => [between(i, toRow, step), between(j, toColumn, step)]);
}

/** The grid: a heading for each row and column, a check box in each cell, a sum behind each row. */
function board({ queries, keys, length, help }) {
  const heading = (role, i, j, name, ...text) => {
    const press = element(
      "div",
      { class: "attnlab-edge", role: "button", tabindex: -1, "data-edge": "", "aria-label": name },
      ...text,
    );
    Object.assign(press.dataset, { i, j });
    return { press, node: element("div", { role, class: "attnlab-heading-cell" }, press) };
  };
  const columns = upTo(keys).map((j) => {
    const padding = j >= length;
    return heading(
      "columnheader",
      -1,
      j,
      `${j + 1}${padding ? " pad" : ""}: paint the column of key ${j + 1}${padding ? ", padding" : ""}`,
      String(j + 1),
      ...(padding ? [" ", element("small", {}, "pad")] : []),
    );
  });
  const rows = upTo(queries).map((i) => {
    const head = heading("rowheader", i, -1, `${i + 1}: paint the row of query ${i + 1}`, String(i + 1));
    const cells = upTo(keys).map((j) => {
      const box = element("div", { class: "attnlab-square", role: "checkbox", tabindex: -1, "data-row": i });
      Object.assign(box.dataset, { key: j, i, j });
      return box;
    });
    const sum = element("div", { class: "attnlab-sum", role: "gridcell" });
    const node = element(
      "div",
      { class: "attnlab-line", role: "row" },
      head.node,
      ...cells.map((box) => element("div", { role: "gridcell" }, box)),
      sum,
    );
    return { node, head, cells, sum };
  });
  const grid = takesKeys(
    element(
      "div",
      { class: "attnlab-board", role: "grid", "aria-label": "Mask, queries by keys", "aria-describedby": help },
      element(
        "div",
        { class: "attnlab-line", role: "row" },
        element("div", { role: "columnheader" }, element("span", { class: "attnlab-spoken" }, "Query")),
        ...columns.map(({ node }) => node),
        element("div", { role: "columnheader", class: "attnlab-sum" }, "sum"),
      ),
      ...rows.map(({ node }) => node),
    ),
  );
  grid.style.setProperty("--keys", keys);
  const press = (i, j) => (i < 0 ? columns[j].press : j < 0 ? rows[i].head.press : rows[i].cells[j]);

  const drawn = []; // what each cell shows now

  function layOut(width) {
    const cell = clamp(Math.floor((width - BESIDE) / keys) - SQUARE.gap, SQUARE.least, SQUARE.most);
    grid.style.setProperty("--cell", `${cell}px`);
    grid.classList.toggle("attnlab-no-bits", cell < SQUARE.withBit);
    // Too wide a board scrolls under a finger, which then taps; else a finger paints sideways.
    grid.classList.toggle("attnlab-wide", BESIDE + keys * (cell + SQUARE.gap) > width);
  }

  /** The cell under a pointer, or the nearest one. */
  function at({ clientX, clientY }) {
    const first = rows[0].cells[0].getBoundingClientRect();
    const last = rows.at(-1).cells.at(-1).getBoundingClientRect();
    const place = (point, from, to, count) => clamp(Math.floor(((point - from) / (to - from)) * count), 0, count - 1);
    return [place(clientY, first.top, last.bottom, queries), place(clientX, first.left, last.right, keys)];
  }

  function paint({ bits, allowed, weights, chosen }) {
    rows.forEach(({ node, cells, sum }, i) => {
      const seen = allowed[i].some(Boolean);
      node.classList.toggle("attnlab-chosen-row", i === chosen);
      cells.forEach((box, j) => {
        const weight = weights[i][j];
        const may = allowed[i][j];
        const state = `${weight} ${may} ${bits[i * keys + j]}`;
        if (drawn[i * keys + j] === state) return; // a stroke changes few of many cells
        drawn[i * keys + j] = state;
        const digits = may ? fixed(weight).replace(/^0/, "") : "";
        Object.assign(box.dataset, { weight, digits, bit: bits[i * keys + j] }); // the style sheet shows these two
        box.style.setProperty("--share", weight);
        box.classList.toggle("attnlab-hidden", !may);
        box.classList.toggle("attnlab-on-dark", weight >= LIGHT_INK_FROM);
        box.setAttribute("aria-checked", String(bits[i * keys + j] === 1));
        const spoken = may ? `may attend, weight ${fixed(weight)}` : "hidden, weight 0";
        box.setAttribute("aria-label", `Query ${i + 1}, key ${j + 1}: ${spoken}`);
      });
      sum.textContent = seen ? "1" : "0";
      sum.classList.toggle("attnlab-empty", !seen);
    });
  }
  const hasBits = () => !grid.classList.contains("attnlab-no-bits");
  return { grid, press, layOut, hasBits, at, paint };
}

/** Pointer and keyboard on the board. `change(cells, value)` paints, `undo(bits)` takes a stroke back. */
function strokes({ life, board, queries, keys, bits, cursor, go, change, undo }) {
  const { grid } = board;
  const valueAt = ([i, j]) => bits()[i * keys + j];
  let stroke = null;
  let byPointer = false; // a click that follows a stroke is not one more

  const follow = (event) => {
    const to = board.at(event);
    change(lineBetween(stroke.at, to), stroke.value);
    stroke.at = to;
    stroke.begun = true;
  };
  life.listen(grid, "pointerdown", (event) => {
    const box = event.target.closest(".attnlab-square");
    if (!box || event.button !== 0 || stroke) return;
    grid.setPointerCapture(event.pointerId);
    const at = [Number(box.dataset.i), Number(box.dataset.j)];
    stroke = { id: event.pointerId, at, value: 1 - valueAt(at), before: bits(), begun: false };
    byPointer = true;
    go(at, false);
    if (event.pointerType !== "touch") follow(event); // a finger may still turn out to scroll the page
  });
  const mine = (event) => stroke?.id === event.pointerId;
  life.listen(grid, "pointermove", (event) => mine(event) && follow(event));
  life.listen(grid, "pointerup", (event) => {
    if (!mine(event)) return;
    if (!stroke.begun) follow(event);
    stroke = null;
  });
  life.listen(grid, "pointercancel", (event) => {
    if (!mine(event)) return;
    if (stroke.begun) undo(stroke.before);
    stroke = null;
  });

  /** Change a cell, or a whole row or column from its heading: all True, and all False when they are. */
  function toggle([i, j]) {
    const lines = i < 0 ? upTo(queries).map((row) => [row, j]) : j < 0 ? upTo(keys).map((key) => [i, key]) : [[i, j]];
    change(lines, lines.every(valueAt) ? 0 : 1);
  }
  life.listen(grid, "click", (event) => {
    const node = event.target.closest("[data-i]");
    const repeated = byPointer && event.detail > 0;
    byPointer = false;
    if (!node || (repeated && !("edge" in node.dataset))) return;
    const at = [Number(node.dataset.i), Number(node.dataset.j)];
    go(at, false);
    toggle(at);
  });
  life.listen(grid, "focusin", (event) => {
    const { i, j } = event.target.dataset;
    if (i !== undefined) go([Number(i), Number(j)], false);
  });
  life.listen(grid, "keydown", (event) => {
    byPointer = false;
    if (event.metaKey || event.altKey) return;
    const [i, j] = cursor();
    const moves = {
      ArrowUp: [i - 1, j],
      ArrowDown: [i + 1, j],
      ArrowLeft: [i, j - 1],
      ArrowRight: [i, j + 1],
      Home: [event.ctrlKey ? 0 : i, 0],
      End: [event.ctrlKey ? queries - 1 : i, keys - 1],
    };
    const move = moves[event.key];
    if (!move && event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (!move) return toggle([i, j]);
    // The corner of the headings is no place to be.
    const to = [clamp(move[0], j < 0 ? 0 : -1, queries - 1), clamp(move[1], i < 0 ? 0 : -1, keys - 1)];
    const inside = i >= 0 && j >= 0 && to[0] >= 0 && to[1] >= 0;
    const value = inside && valueAt([i, j]);
    go(to, true);
    if (event.shiftKey && inside) change(lineBetween([i, j], to), value);
  });
}

/** The chosen row as bars: a frame for what each key would have without a mask, filled with what it has. */
function paintBars(list, { plain, row, allowed, column }) {
  list.replaceChildren(
    ...plain.map((before, j) => {
      const line = weightBar(`key ${j + 1}`, row[j], j === column, before);
      line.querySelector(".attnlab-bar-number").textContent =
        `${fixed(before)} → ${allowed[j] ? fixed(row[j]) : "0"}`;
      line.classList.toggle("attnlab-hidden-key", !allowed[j]);
      return line;
    }),
  );
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Mask painter", kind: "mask" });
  const { life } = here;
  const [queries, keys] = model.get("shape");
  const length = model.get("length");
  const presets = presetsFor({ queries, keys, length, window: model.get("window") });
  let scores, plain, bits, allowed, weights;
  let cursor = [model.get("row"), 0]; // where the keyboard is: −1 stands for the headings

  const byRow = (all) => upTo(queries).map((i) => [...all.subarray(i * keys, (i + 1) * keys)]);
  const load = () => {
    scores = byRow(floats(model.get("scores")));
    plain = scores.map((row) => shareOut(row, row.map(() => true)));
  };
  const compute = () => {
    const { buffer, byteOffset, byteLength } = model.get("mask");
    bits = new Uint8Array(buffer, byteOffset, byteLength);
    allowed = byRow(bits).map((row) => row.map((bit) => (bit === 1) !== model.get("inverted")));
    weights = scores.map((row, i) => shareOut(row, allowed[i]));
  };
  load();
  compute();

  const setBits = (next) => here.set("mask", new DataView(next.buffer));
  const choose = (row) => row !== model.get("row") && here.set("row", row);
  const change = (cells, value) => {
    const next = bits.slice();
    for (const [i, j] of cells) next[i * keys + j] = value;
    if (next.some((bit, at) => bit !== bits[at])) setBits(next);
    if (cells.length && new Set(cells.map(([i]) => i)).size === 1) choose(cells[0][0]);
  };

  const pressed = presets.map(({ text, bits: ready }) =>
    button({ stage: here, label: text, text, onPress: () => setBits(ready.slice()) }),
  );
  pressed.forEach((node, at) => (node.dataset.preset = presets[at].name));
  const named = () => presets.find(({ bits: ready }) => ready.every((bit, at) => bit === bits[at]));
  const sense = choice({
    stage: here,
    label: "True (1) means",
    options: [
      ["may", "may attend"],
      ["may not", "may not attend"],
    ],
    onChange: (value) => here.set("inverted", value === "may not"),
  });
  sense.input.dataset.trait = "inverted";
  const help = here.nextId();
  const grid = board({ queries, keys, length, help });
  const legend = element("p", { class: "attnlab-fact" });
  const title = element("p", { class: "attnlab-title" });
  const list = element("ol", { class: "attnlab-bars", "aria-label": "Weights of the chosen query" });
  const rowFact = element("p", { class: "attnlab-fact", "data-fact": "row" });
  const maskFact = element("p", { class: "attnlab-fact", "data-fact": "mask" });
  const step = (by) => {
    const row = clamp(model.get("row") + by, 0, queries - 1);
    choose(row);
    go([row, Math.max(0, cursor[1])], false);
  };
  const previous = button({ stage: here, label: "Previous query", text: "▲", onPress: () => step(-1) });
  const next = button({ stage: here, label: "Next query", text: "▼", onPress: () => step(1) });
  const table = valueTable({
    stage: here,
    summary: "Scores and weights as a table",
    content: () => ({
      caption: "Each row of weights sums to 1, or to 0 where the query may see no key.",
      columns: ["Query", ...plain[0].map((_, j) => `Key ${j + 1}`), "Sum"],
      rows: scores.flatMap((row, i) => [
        [`${i + 1}, scores`, ...row.map((score) => fixed(score, 4)), ""],
        [
          `${i + 1}, weights`,
          ...weights[i].map((weight, j) => (allowed[i][j] ? fixed(weight, 4) : "hidden")),
          allowed[i].some(Boolean) ? "1" : "0",
        ],
      ]),
    }),
  });
  const frame = element("div", { class: "attnlab-board-frame" }, grid.grid);
  here.add(
    element(
      "div",
      { class: "attnlab-controls" },
      element(
        "div",
        { class: "attnlab-presets", role: "group", "aria-label": "Mask" },
        element("span", { class: "attnlab-presets-name", "aria-hidden": "true" }, "Mask"),
        element("div", {}, ...pressed),
      ),
      sense.node,
    ),
    element(
      "div",
      { class: `attnlab-columns${keys < STACKED_FROM ? " attnlab-beside" : ""}` },
      element(
        "div",
        { class: "attnlab-work" },
        element(
          "p",
          { class: "attnlab-axes", "aria-hidden": "true" },
          element("span", {}, "queries ↓"),
          element("span", {}, "keys →"),
        ),
        frame,
        legend,
        element(
          "p",
          { class: "attnlab-fact", id: help },
          "Press a cell or drag over several; a number at the edge paints its whole row or column. " +
            "Keys: arrows move, Space changes a cell, Shift with an arrow paints on.",
        ),
      ),
      element(
        "div",
        { class: "attnlab-side" },
        element("div", { class: "attnlab-chooser" }, title, previous, next),
        list,
        rowFact,
        maskFact,
      ),
    ),
    table.node,
  );

  function go(to, focus) {
    grid.press(...cursor).tabIndex = -1;
    cursor = to;
    const node = grid.press(...cursor);
    node.tabIndex = 0;
    if (focus) node.focus();
    if (to[0] >= 0) choose(to[0]);
    redraw();
  }

  function inWords(i) {
    const seen = allowed[i].flatMap((may, j) => (may ? [j] : []));
    const who = `Query ${i + 1} may see`;
    if (!seen.length) return `${who} no key: all its weights are 0, and so is its output.`;
    if (seen.length === keys) return `${who} every key, as without a mask.`;
    const held = total(seen.map((j) => plain[i][j]));
    const [what, each] = seen.length === 1 ? ["key", "its share is"] : ["keys", "each share is"];
    return `${who} ${what} ${enumerated(seen.map((j) => j + 1))}. Without a mask ${seen.length === 1 ? "it" : "they"} held ${readable(held)} of the whole; now ${each} divided by that.`;
  }
  function maskInWords() {
    const empty = allowed.flatMap((row, i) => (row.some(Boolean) ? [] : [i + 1]));
    if (!empty.length) return "Every row sums to 1.";
    return `${empty.length === 1 ? "Row" : "Rows"} ${enumerated(empty)} may see no key: zeros, not NaN.`;
  }

  let laidOut = 0;
  function draw() {
    if (frame.clientWidth !== laidOut) grid.layOut((laidOut = frame.clientWidth) - 8);
    const i = model.get("row");
    const inverted = model.get("inverted");
    grid.paint({ bits, allowed, weights, chosen: i });
    pressed.forEach((node, at) => node.setAttribute("aria-pressed", String(presets[at] === named())));
    sense.set(inverted ? "may not" : "may");
    title.textContent = `Query ${i + 1} of ${queries}`;
    paintBars(list, { plain: plain[i], row: weights[i], allowed: allowed[i], column: cursor[1] });
    legend.textContent = grid.hasBits()
      ? `In a cell: its weight, and in the corner the mask, ${inverted ? "1 = hidden, 0 = may attend" : "1 = may attend, 0 = hidden"}. Hidden cells are hatched.`
      : `In a cell: its weight. Hidden cells are hatched; there the mask is ${inverted ? "1" : "0"}.`;
    rowFact.textContent = inWords(i);
    maskFact.textContent = maskInWords();
    previous.setAttribute("aria-disabled", i === 0); // not `disabled`, which would take the focus away
    next.setAttribute("aria-disabled", i === queries - 1);
    Object.assign(here.root.dataset, { row: i, mask: named()?.name ?? "painted", inverted });
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () =>
    `Mask: ${named()?.text ?? "painted"}, True means ${model.get("inverted") ? "may not" : "may"} attend. ` +
    `${inWords(model.get("row"))} ${maskInWords()}`;
  const renew = () => (compute(), redraw(), here.announce(inSentences));
  life.watch(model, ["mask", "inverted"], renew);
  life.watch(model, ["scores"], () => (load(), renew()));
  life.watch(model, ["row"], redraw);
  life.onResize(frame, redraw);
  strokes({ life, board: grid, queries, keys, bits: () => bits, cursor: () => cursor, go, change, undo: setBits });
  grid.press(...cursor).tabIndex = 0;
  draw();
  return here.remove;
}

export default { render };

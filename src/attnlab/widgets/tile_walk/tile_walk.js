// Tile walk: the tiles of chunked attention one after another, with what each row carries, computed here in float64.
// Names that are not defined here come from ../_shared.js, which stands before this text.

/** The tiles in the order of the walk: along the keys, then down the queries. */
function tilesOf(T, S, queryTile, keyTile) {
  const starts = (length, size) => upTo(Math.ceil(length / size)).map((i) => [i * size, Math.min((i + 1) * size, length)]);
  return starts(T, queryTile).flatMap((rows) => starts(S, keyTile).map((keys) => ({ rows, keys })));
}

/** Maximum m, sum l and output a of each row after the first `done` tiles, and what the last one multiplied by. */
function walked({ scores, values, tiles, done, T }) {
  const state = upTo(T).map(() => ({ m: -Infinity, l: 0, a: 0, correction: undefined }));
  tiles.slice(0, done).forEach(({ rows, keys }, number) => {
    for (let i = rows[0]; i < rows[1]; i++) {
      const row = state[i];
      const part = scores[i].slice(...keys);
      const m = Math.max(row.m, ...part);
      const correction = Math.exp(row.m - m);
      const terms = part.map((score) => Math.exp(score - m));
      const l = correction * row.l + total(terms);
      const a = correction * row.a + total(terms.map((term, j) => term * values[keys[0] + j]));
      state[i] = { m, l, a, correction: number === done - 1 ? correction : undefined };
    }
  });
  return state;
}

const shownNumber = (value) => (Number.isFinite(value) ? fixed(value) : value < 0 ? "−∞" : "–");

function render({ model, el }) {
  const here = stage({ model, el, name: "Walk through the tiles", kind: "tiles" });
  const { life } = here;
  const values = [...floats(model.get("values"))];
  const S = values.length;
  const all = [...floats(model.get("scores"))];
  const T = all.length / S;
  const scores = upTo(T).map((i) => all.slice(i * S, (i + 1) * S));
  let now;

  function compute() {
    const tiles = tilesOf(T, S, model.get("query_tile"), model.get("key_tile"));
    const done = Math.min(model.get("step"), tiles.length);
    now = { tiles, done, last: done ? tiles[done - 1] : undefined, rows: walked({ scores, values, tiles, done, T }) };
  }

  // Other tiles are another walk: it begins again.
  const size = (trait, label, max) =>
    slider({
      stage: here,
      label,
      min: 1,
      max,
      onInput(value) {
        model.set("step", 0);
        here.set(trait, value);
      },
    });
  const sizes = { query_tile: size("query_tile", "Queries in a tile", T), key_tile: size("key_tile", "Keys in a tile", S) };
  for (const [trait, { input }] of Object.entries(sizes)) input.dataset.trait = trait;
  const move = (by) => {
    compute(); // presses may come faster than frames
    const step = clamp(now.done + by, 0, now.tiles.length);
    if (step !== model.get("step")) here.set("step", step);
  };
  const [again, back, next] = [
    ["Begin again", () => move(-now.tiles.length)],
    ["Back one tile", () => move(-1)],
    ["Take the next tile", () => move(1)],
  ].map(([text, onPress]) => button({ stage: here, label: text, text, onPress }));
  const buttons = element("div", { class: "attnlab-tiles-buttons" }, again, back, next);

  const cells = scores.map((row, i) =>
    row.map((score, j) => {
      const node = element("span", { class: "attnlab-tile-cell" }, fixed(score, 1));
      Object.assign(node.dataset, { row: i, key: j });
      return node;
    }),
  );
  const map = element("div", { class: "attnlab-tiles-map", "aria-hidden": "true" }, ...cells.flat());
  map.style.setProperty("--keys", S);
  const carried = upTo(T).map((i) => {
    const numbers = ["m", "l", "output", "correction"].map((kind) => element("td", { class: `attnlab-tiles-${kind}` }));
    return { node: element("tr", {}, element("th", { scope: "row" }, String(i + 1)), ...numbers), numbers };
  });
  const heads = ["query", "max m", "sum ℓ", "a/ℓ", "factor"];
  const table = element(
    "table",
    { class: "attnlab-tiles-carried" },
    element("caption", {}, "What each row carries: maximum, sum, output so far, and by what its old sum was multiplied"),
    element("thead", {}, element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...carried.map(({ node }) => node)),
  );
  const [title, fact] = ["attnlab-tiles-title", "attnlab-fact"].map((kind) => element("p", { class: kind }));
  const legend = element(
    "p",
    { class: "attnlab-fact" },
    "Framed: the tile at hand, fuller in colour where its terms e^(s\u00a0−\u00a0m) are larger. Hatched: done, and let go. Plain: to come.",
  );
  const whole = valueTable({
    stage: here,
    summary: "All scores and values as a table",
    content: () => ({
      caption: "Scores, a row for each query. The last row holds the keys' values.",
      columns: ["row", ...upTo(S).map((j) => `key ${j + 1}`)],
      rows: [
        ...scores.map((row, i) => [`query ${i + 1}`, ...row.map((score) => fixed(score))]),
        ["value", ...values.map((value) => fixed(value))],
      ],
    }),
  });
  here.add(
    element("div", { class: "attnlab-controls" }, ...Object.values(sizes).map(({ node }) => node), buttons),
    title,
    element("div", { class: "attnlab-tiles-columns" }, element("div", {}, map, legend), element("div", {}, table, fact)),
    whole.node,
  );

  const span = ([from, to], one) => (to - from > 1 ? `${one === "query" ? "queries" : "keys"} ${from + 1} to ${to}` : `${one} ${to}`);
  function heading() {
    if (!now.last) return `No tile yet, of ${now.tiles.length}`;
    return `Tile ${now.done} of ${now.tiles.length}: ${span(now.last.rows, "query")}, ${span(now.last.keys, "key")}`;
  }
  function told() {
    const held = now.last ? (now.last.rows[1] - now.last.rows[0]) * (now.last.keys[1] - now.last.keys[0]) : 0;
    const kept = `${held} of ${T * S} scores exist now.`;
    const shrunk = now.rows.flatMap((row, i) => (row.correction > 0 && row.correction < 1 ? [i + 1] : []));
    if (!shrunk.length) return kept;
    return `${kept} The maximum rose in ${shrunk.length > 1 ? "rows" : "row"} ${enumerated(shrunk)}: what was summed up shrank.`;
  }

  function draw() {
    compute();
    for (const [trait, control] of Object.entries(sizes)) control.set(model.get(trait));
    for (const node of [again, back]) node.setAttribute("aria-disabled", String(now.done === 0));
    next.setAttribute("aria-disabled", String(now.done === now.tiles.length));
    const inside = ({ rows, keys }, i, j) => i >= rows[0] && i < rows[1] && j >= keys[0] && j < keys[1];
    const before = now.tiles.slice(0, Math.max(0, now.done - 1));
    cells.forEach((row, i) =>
      row.forEach((cell, j) => {
        const state = now.last && inside(now.last, i, j) ? "here" : before.some((tile) => inside(tile, i, j)) ? "done" : "ahead";
        const term = state === "here" ? Math.exp(scores[i][j] - now.rows[i].m) : 0;
        cell.dataset.state = state;
        cell.style.setProperty("--share", term);
        cell.classList.toggle("attnlab-on-dark", term > LIGHT_INK_FROM);
      }),
    );
    carried.forEach(({ node, numbers }, i) => {
      const { m, l, a, correction } = now.rows[i];
      const shown = [shownNumber(m), fixed(l), shownNumber(a / l), correction === undefined ? "" : fixed(correction, 3)];
      numbers.forEach((cell, k) => (cell.textContent = shown[k]));
      node.classList.toggle("attnlab-marked", correction !== undefined);
    });
    title.textContent = heading();
    fact.textContent = told();
    const listed = (kind) => JSON.stringify(now.rows.map((row) => (Number.isFinite(row[kind]) ? row[kind] : null)));
    Object.assign(here.root.dataset, {
      maximum: listed("m"),
      total: listed("l"),
      gathered: listed("a"),
      corrections: listed("correction"),
      done: now.done,
    });
    whole.refresh();
  }
  const redraw = life.onePerFrame(draw);
  life.watch(model, ["query_tile", "key_tile", "step"], () => {
    redraw();
    here.announce(() => `${heading()}. ${told()}`);
  });
  draw();
  return here.remove;
}

export default { render };

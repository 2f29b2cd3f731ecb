// Training map: measured loss curves over depth and learning rate, for two norms with and without warm-up.
// Names that are not defined here come from ../_shared.js and ../_map.js, which stand before this text.

const NOT_FINITE = 255;
const NEAR = 0.05; // this near to the loss of a guess, relatively, nothing was learnt
const NORMS = ["pre", "post"];
const PLOT = { height: 210, left: 34, right: 8, top: 10, bottom: 34, highest: 2.6 };
const SIGNS = { learnt: "", guess: "=", diverged: "×" };
const MEANING = { learnt: "learnt", guess: "no better than a guess", diverged: "diverged" };

const inLayers = (depth) => `${depth} ${depth === 1 ? "layer" : "layers"}`;
const inNats = (loss) => (Number.isFinite(loss) ? loss.toFixed(2) : "not finite");

/** Curves by norm, depth and rate, with the mean of their last fifth and what became of each run. */
function reader(model) {
  const bytes = model.get("curves");
  const raw = new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength);
  const [depths, rates] = [model.get("depths").length, model.get("rates").length];
  const points = raw.length / (4 * depths * rates);
  const last = Math.ceil(points / 5);
  return (norm, row, column) => {
    const kind = 2 * NORMS.indexOf(norm) + Number(model.get("warmup"));
    const start = ((kind * depths + row) * rates + column) * points;
    const losses = Array.from(raw.subarray(start, start + points), (n) => (n === NOT_FINITE ? Infinity : n / 100));
    const final = losses.slice(-last).reduce((sum, loss) => sum + loss, 0) / last;
    const share = final / model.get("guess");
    return { losses, final, outcome: share > 1 + NEAR ? "diverged" : share >= 1 - NEAR ? "guess" : "learnt" };
  };
}

/** The map, with the greatest depth at the top, as on an axis. */
function makeMap({ stage, model, onChoose }) {
  const [depths, rates] = [model.get("depths"), model.get("rates")];
  const axis = (values, text) => values.map((value, at) => ({ at, text: text(value) }));
  const map = measuredMap({
    stage,
    label: "Map of last losses",
    axes: ["layers ↑", "learning rate →"],
    rows: axis(depths, String).reverse(),
    columns: axis(rates, (rate) => String(rate).replace(/^0/, "")),
    chosen: () => [model.get("row"), model.get("column")],
    onChoose,
  });
  const cell = (read) => (row, column) => {
    const { final, outcome } = read(model.get("norm"), row, column);
    return {
      lines: [SIGNS[outcome], Number.isFinite(final) ? final.toFixed(2) : ""].filter(Boolean),
      share: outcome === "learnt" ? clamp(1 - final / model.get("guess"), 0, 1) : 0,
      kind: outcome,
      name: `${inLayers(depths[row])}, rate ${rates[column]}: last loss ${inNats(final)}, ${MEANING[outcome]}`,
    };
  };
  return { node: map.node, draw: (read) => map.draw(cell(read)) };
}

/** Two curves over the steps; a point stands in the middle of the steps of which it is the mean. */
function drawCurves({ svg, model, runs, width }) {
  const { height, left, right, top, bottom, highest } = PLOT;
  const across = (step) => left + (step / model.get("steps")) * (width - left - right);
  const down = (loss) => top + (1 - Math.min(loss, highest) / highest) * (height - top - bottom);
  const text = (x, y, content, anchor = "middle") => shape("text", { x, y, "text-anchor": anchor }, content);
  const line = (loss, kind) => shape("path", { class: kind, d: `M${left} ${down(loss)}H${width - right}` });
  const lines = runs.map(({ norm, losses }) => {
    const span = model.get("steps") / losses.length;
    const finite = losses.filter(Number.isFinite);
    const path = finite.map((loss, i) => `${across((i + 0.5) * span).toFixed(1)} ${down(loss).toFixed(1)}`);
    return shape("path", { class: `attnlab-curve attnlab-curve-${norm}`, d: path.length ? `M${path.join("L")}` : "" });
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.replaceChildren(
    ...[0, 1, 2].flatMap((loss) => [line(loss, "attnlab-curve-grid"), text(left - 6, down(loss) + 4, loss, "end")]),
    line(model.get("guess"), "attnlab-curve-guess"),
    text(width - right, down(model.get("guess")) - 5, "guess", "end"),
    ...[0, 0.5, 1].map((part) =>
      text(across(part * model.get("steps")), height - bottom + 15, part * model.get("steps"), part === 1 ? "end" : "middle"),
    ),
    text((left + width - right) / 2, height - 4, "training steps"),
    ...lines,
  );
}

function tables({ stage, model, read }) {
  const [depths, rates] = [model.get("depths"), model.get("rates")];
  const titled = () => `${model.get("norm")}-norm ${model.get("warmup") ? "with" : "without"} warm-up`;
  const map = valueTable({
    stage,
    summary: "Last losses as a table",
    content: () => ({
      caption: `Last loss in nats, ${titled()}, by layers and learning rate`,
      columns: ["Layers", ...rates.map(String)],
      rows: depths.map((depth, row) => [
        String(depth),
        ...rates.map((_, column) => {
          const { final, outcome } = read(model.get("norm"), row, column);
          return inNats(final) + (outcome === "learnt" ? "" : ` (${MEANING[outcome]})`);
        }),
      ]),
    }),
  });
  const curves = valueTable({
    stage,
    summary: "Both curves as a table",
    content: () => {
      const [row, column] = [model.get("row"), model.get("column")];
      const both = NORMS.map((norm) => read(norm, row, column).losses);
      const span = model.get("steps") / both[0].length;
      return {
        caption: `Loss in nats at ${inLayers(depths[row])} and the rate ${rates[column]}`,
        columns: ["Steps", ...NORMS.map((norm) => `${norm}-norm`)],
        rows: both[0].map((_, i) => [`${i * span + 1} to ${(i + 1) * span}`, ...both.map((one) => inNats(one[i]))]),
      };
    },
  });
  return [map, curves];
}

function render({ model, el }) {
  const view = stage({ model, el, name: "Training map", kind: "training-map" });
  const read = reader(model);
  const norm = choice({
    stage: view,
    label: "Norm",
    options: NORMS.map((name) => [name, `${name}-norm`]),
    onChange: (value) => view.set("norm", value),
  });
  const warmup = checkbox({ stage: view, label: "Warm-up", onChange: (on) => view.set("warmup", on) });
  const map = makeMap({
    stage: view,
    model,
    onChoose(row, column) {
      if (row !== model.get("row")) view.set("row", row);
      if (column !== model.get("column")) view.set("column", column);
    },
  });
  const svg = shape("svg", { "aria-hidden": "true" });
  const title = element("p", { class: "attnlab-map-title" });
  const legend = element("ul", { class: "attnlab-curve-legend" });
  const all = tables({ stage: view, model, read });
  const key = "In each cell the last loss in nats: stronger is lower. ";
  const curves = element("div", { class: "attnlab-map-curves" }, title, legend, svg);
  view.add(
    element("div", { class: "attnlab-controls" }, norm.node, warmup.node),
    element("div", { class: "attnlab-map-columns" }, element("div", {}, map.node), curves),
    element("p", { class: "attnlab-fact" }, `${key}${SIGNS.guess} ${MEANING.guess}, ${SIGNS.diverged} diverged.`),
    ...all.map((table) => table.node),
  );

  const place = () => `${inLayers(model.get("depths")[model.get("row")])}, rate ${model.get("rates")[model.get("column")]}`;
  const runs = () => NORMS.map((name) => ({ norm: name, ...read(name, model.get("row"), model.get("column")) }));
  const told = ({ norm: name, final, outcome }) => `${name}-norm ${inNats(final)}, ${MEANING[outcome]}`;
  function draw() {
    norm.set(model.get("norm"));
    warmup.set(model.get("warmup"));
    map.draw(read);
    title.textContent = `${place()}${model.get("warmup") ? ", with warm-up" : ""}`;
    legend.replaceChildren(
      ...runs().map((run) =>
        element(
          "li",
          { "data-norm": run.norm },
          element("span", { class: `attnlab-curve-sample attnlab-curve-${run.norm}`, "aria-hidden": "true" }),
          told(run),
        ),
      ),
    );
    drawCurves({ svg, model, runs: runs(), width: Math.max(200, Math.floor(curves.clientWidth)) });
    for (const table of all) table.refresh();
  }
  const redraw = view.life.onePerFrame(draw);
  view.life.watch(model, ["norm", "warmup", "row", "column"], () => {
    redraw();
    view.announce(() => `${place()}: ${runs().map(told).join("; ")}`);
  });
  view.life.onResize(curves, redraw);
  draw();
  return () => view.remove();
}

export default { render };

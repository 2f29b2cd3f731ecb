// Gradient explorer: one line for each model over the distance, on a logarithmic scale, read with a cursor.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const HEIGHT = 320;
const MARGIN = { top: 34, bottom: 26, left: 52 };
const UNDERFLOW_BAND = 30; // pixels under the scale, for values that a float32 cannot hold
const LABELS_FROM = 560; // pixels of width from which names stand beside their lines
const LABEL_GAP = 17;
// The dashes and markers of the course's figures, in the same order.
const DASHES = ["", "10 4", "3 3", "12 4 3 4", "18 6", "6 2 2 2 2 2"];
const MARKERS = [
  "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
  "M-4.5-4.5H4.5V4.5H-4.5Z",
  "M0-6.5L6 0L0 6.5L-6 0Z",
  "M0-6L6 5H-6Z",
  "M0 6L6-5H-6Z",
  "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
];
const MAGNITUDES = ["", " thousand", " million", " billion", " trillion", " quadrillion", " quintillion"];

/** A share in words: "22 %", "1 part in 50 billion". */
function inWords(share) {
  if (share === 0) return "underflow: too small for a 32-bit float";
  if (share > 1.005) return `${readable(share, 3)} times as much`;
  if (share >= 0.995) return "all of it";
  if (share >= 0.01) return `${readable(100 * share)} %`;
  const parts = Number((1 / share).toPrecision(2));
  const group = Math.floor(Math.log10(parts) / 3);
  if (group >= MAGNITUDES.length) return `1 part in ${readable(parts)}`;
  return `1 part in ${Number((parts / 1000 ** group).toPrecision(2))}${MAGNITUDES[group]}`;
}

/** The same for a screen reader, which would stumble over raised digits. */
const aloud = (share) =>
  inWords(share).replace(/ × 10([⁻⁰¹²³⁴-⁹]+)/, (_, digits) => {
    const plain = [...digits].map((digit) => Object.keys(RAISED).find((key) => RAISED[key] === digit)).join("");
    return ` times 10 to the ${plain.replace("-", "minus ")}`;
  });

/** Steps of 1, 2 or 5 times a power of ten, at most `most` of them up to `last`. */
function evenSteps(last, most) {
  let step = 1;
  for (let i = 0; last / step > most; i++) step = [2, 5, 10][i % 3] * 10 ** Math.floor(i / 3);
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => i * step);
}

/** Decades from `high` down to `low`, thinned to at most seven. */
function decades(low, high) {
  const step = [1, 2, 3, 5, 10, 20].find((candidate) => (high - low) / candidate <= 6);
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => high - i * step);
}

/** Move labels apart that would overlap, and keep all of them between `top` and `bottom`. */
function spread(labels, top, bottom) {
  labels.sort((one, other) => one.y - other.y);
  labels.forEach((label, i) => (label.y = Math.max(label.y, i ? labels[i - 1].y + LABEL_GAP : top)));
  for (let i = labels.length - 1; i >= 0; i--) {
    labels[i].y = Math.min(labels[i].y, i < labels.length - 1 ? labels[i + 1].y - LABEL_GAP : bottom);
  }
}

/** What the chart needs to place a value: scales for the models that are shown at this width. */
function scales(models, width, last) {
  const values = models.flatMap(({ curve }) => [...curve]);
  const positive = values.filter((value) => value > 0);
  const high = Math.ceil(Math.log10(Math.max(1, ...positive)) - 1e-9);
  const low = Math.min(high - 1, Math.floor(Math.log10(Math.min(1, ...positive)) + 1e-9));
  const underflow = values.includes(0);
  const hasNames = width >= LABELS_FROM;
  const longest = Math.max(0, ...models.map(({ name }) => name.length));
  const right = width - (hasNames ? Math.min(24 + 7.2 * longest, 0.3 * width) : 12);
  const bottom = HEIGHT - MARGIN.bottom;
  const floor = bottom - (underflow ? UNDERFLOW_BAND : 0);
  return {
    low,
    high,
    underflow,
    hasNames,
    right,
    bottom,
    floor,
    width,
    x: (distance) => MARGIN.left + (distance / last) * (right - MARGIN.left),
    y: (value) =>
      value === 0
        ? bottom - UNDERFLOW_BAND / 4
        : MARGIN.top + ((high - Math.log10(value)) / (high - low)) * (floor - MARGIN.top),
  };
}

function drawAxes(scale, last) {
  const { low, high, right, bottom, floor, x } = scale;
  const parts = decades(low, high).flatMap((exponent) => {
    const y = scale.y(10 ** exponent);
    const text = exponent === 0 ? "1" : `10${raised(exponent)}`;
    return [
      shape("line", { class: "attnlab-grid", x1: MARGIN.left, x2: right, y1: y, y2: y }),
      shape("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, text),
    ];
  });
  for (const distance of evenSteps(last, right > 420 ? 10 : 5)) {
    parts.push(
      shape("line", { class: "attnlab-axis", x1: x(distance), x2: x(distance), y1: bottom, y2: bottom + 5 }),
      shape("text", { x: x(distance), y: bottom + 20, "text-anchor": "middle" }, String(distance)),
    );
  }
  if (scale.underflow) {
    parts.push(
      shape("rect", {
        class: "attnlab-underflow",
        x: MARGIN.left,
        y: floor,
        width: right - MARGIN.left,
        height: bottom - floor,
      }),
      shape("text", { class: "attnlab-quiet", x: MARGIN.left + 6, y: floor + 13 }, "underflow"),
      shape("text", { x: MARGIN.left - 8, y: bottom - 4, "text-anchor": "end" }, "0"),
    );
  }
  return [...parts, shape("line", { class: "attnlab-axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom })];
}

function drawLines(models, scale, last) {
  const lines = models.map(({ curve, style }) => {
    const points = [...curve].map(
      (value, distance) => `${scale.x(distance).toFixed(1)},${scale.y(value).toFixed(1)}`,
    );
    return shape("polyline", {
      class: "attnlab-line",
      points: points.join(" "),
      "data-role": style.role,
      "stroke-dasharray": style.dash,
    });
  });
  if (!scale.hasNames) return lines;
  const labels = models.map(({ name, curve, style }) => ({
    name,
    style,
    end: scale.y(curve[last]),
    y: scale.y(curve[last]),
  }));
  spread(labels, MARGIN.top + 4, scale.bottom - 4);
  const named = labels.flatMap(({ name, style, end, y }) => [
    shape("path", {
      class: "attnlab-leader",
      "data-role": style.role,
      d: `M${scale.right + 3} ${end}L${scale.right + 14} ${y}`,
    }),
    shape("text", { class: "attnlab-name", "data-role": style.role, x: scale.right + 18, y: y + 4 }, name),
  ]);
  return [...lines, ...named];
}

/** The row of one model: switch, sample of its line, name, number and words. */
function modelRow({ stage, name, style, onSwitch }) {
  const input = takesKeys(element("input", { type: "checkbox" }));
  stage.life.listen(input, "change", () => onSwitch(input.checked));
  const sample = shape(
    "svg",
    { width: 44, height: 16, "aria-hidden": "true" },
    shape("line", {
      class: "attnlab-line",
      "data-role": style.role,
      "stroke-dasharray": style.dash,
      x1: 1,
      x2: 43,
      y1: 8,
      y2: 8,
    }),
    shape("path", { class: "attnlab-dot", "data-role": style.role, d: style.marker, transform: "translate(22 8)" }),
  );
  const number = element("span", { class: "attnlab-number" });
  const words = element("span", { class: "attnlab-words" });
  const row = element(
    "li",
    { "data-model": name },
    element("label", { class: "attnlab-check" }, input, sample, element("span", { class: "attnlab-model" }, name)),
    number,
    words,
  );
  return { row, input, number, words };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Gradient explorer", kind: "gradient" });
  const { life } = here;
  const names = model.get("names");
  const styleOf = (i) => ({ role: model.get("roles")[i], dash: DASHES[i], marker: MARKERS[i] });
  let models, last;
  const load = () => {
    const all = floats(model.get("curves"));
    const length = all.length / names.length;
    last = length - 1;
    models = names.map((name, i) => ({ name, curve: all.subarray(i * length, (i + 1) * length), style: styleOf(i) }));
  };
  load();

  const heading = element("p", { class: "attnlab-heading" });
  const chart = shape("svg", { class: "attnlab-chart", role: "img", height: HEIGHT });
  const fixed = shape("g");
  const cursor = shape("g", { class: "attnlab-cursor" });
  chart.append(fixed, cursor);
  const distance = slider({
    stage: here,
    label: "Distance",
    min: 0,
    max: last,
    show: (steps) => `${steps} ${steps === 1 ? "step" : "steps"} back`,
    onInput: (value) => here.set("distance", value),
  });
  distance.node.classList.add("attnlab-distance");
  const rows = models.map(({ name, style }) =>
    modelRow({
      stage: here,
      name,
      style,
      onSwitch(on) {
        const others = model.get("hidden").filter((hidden) => hidden !== name);
        here.set("hidden", on ? others : [...others, name]);
      },
    }),
  );
  const shown = () => models.filter(({ name }) => !model.get("hidden").includes(name));
  const table = valueTable({
    stage: here,
    summary: "Values as a table",
    content: () => ({
      caption: "Share of the gradient at distance 0 that is left",
      columns: ["Distance", ...shown().map(({ name }) => name)],
      rows: [...new Set([...evenSteps(last, 12), model.get("distance"), last])]
        .sort((one, other) => one - other)
        .map((steps) => [
          String(steps),
          ...shown().map(({ curve }) => (curve[steps] ? readable(curve[steps], 3) : "underflow")),
        ]),
    }),
  });
  const frame = element("div", { class: "attnlab-frame" }, chart);
  const title = element(
    "p",
    { class: "attnlab-caption" },
    "Gradient left, as a share of the gradient at distance 0 (logarithmic scale)",
  );
  here.add(
    title,
    frame,
    distance.node,
    heading,
    element("ul", { class: "attnlab-models" }, ...rows.map(({ row }) => row)),
    table.node,
  );

  let scale, drawn;
  function layOut() {
    const width = Math.max(240, frame.clientWidth);
    const state = `${width} ${model.get("hidden")}`;
    if (state === drawn) return;
    drawn = state;
    scale = scales(shown(), width, last);
    chart.setAttribute("width", width);
    chart.setAttribute(
      "aria-label",
      `Line chart on a logarithmic scale: ${
        shown()
          .map(({ name }) => name)
          .join(", ") || "no model"
      } over distances 0 to ${last}. The slider below reads it.`,
    );
    fixed.replaceChildren(...drawAxes(scale, last), ...drawLines(shown(), scale, last));
    // The slider is as long as the axis, and its handle stands under the cursor.
    distance.input.style.marginLeft = `${MARGIN.left - HANDLE / 2}px`;
    distance.input.style.width = `${scale.right - MARGIN.left + HANDLE}px`;
  }

  function drawCursor(steps) {
    const x = scale.x(steps);
    const flag = `${steps}`;
    const half = 8 + 4 * flag.length;
    cursor.replaceChildren(
      shape("line", { x1: x, x2: x, y1: MARGIN.top - 4, y2: scale.bottom }),
      shape("rect", { class: "attnlab-flag", x: x - half, y: MARGIN.top - 26, width: 2 * half, height: 22, rx: 11 }),
      shape("text", { class: "attnlab-flag-text", x, y: MARGIN.top - 10, "text-anchor": "middle" }, flag),
      ...shown().map(({ curve, style }) =>
        shape("path", {
          class: "attnlab-dot",
          "data-role": style.role,
          d: style.marker,
          transform: `translate(${x} ${scale.y(curve[steps])})`,
        }),
      ),
    );
  }

  function draw() {
    layOut();
    const steps = model.get("distance");
    drawCursor(steps);
    distance.set(steps);
    here.root.dataset.distance = steps;
    heading.textContent = `At distance ${steps}, of the gradient at distance 0 there is left:`;
    rows.forEach(({ row, input, number, words }, i) => {
      const value = models[i].curve[steps];
      const on = shown().includes(models[i]);
      input.checked = on;
      row.dataset.value = value;
      row.classList.toggle("attnlab-off", !on);
      number.textContent = !on ? "" : value === 0 ? "0" : readable(value);
      words.textContent = on ? inWords(value) : "switched off";
    });
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => {
    const steps = model.get("distance");
    const said = shown().map(({ name, curve }) => `${name}: ${aloud(curve[steps])}`);
    return `Distance ${steps}. ${said.join(". ") || "No model is shown"}.`;
  };
  life.watch(model, ["distance", "hidden"], () => (redraw(), here.announce(inSentences)));
  life.watch(model, ["curves"], () => (load(), (drawn = ""), redraw()));
  life.onResize(frame, redraw);

  const follow = (event) => {
    const left = chart.getBoundingClientRect().left;
    const share = (event.clientX - left - MARGIN.left) / (scale.right - MARGIN.left);
    here.set("distance", Math.round(clamp(share, 0, 1) * last));
  };
  life.listen(chart, "pointerdown", (event) => {
    if (event.button !== 0) return;
    chart.setPointerCapture(event.pointerId);
    follow(event);
  });
  life.listen(chart, "pointermove", (event) => chart.hasPointerCapture(event.pointerId) && follow(event));
  draw();
  return here.remove;
}

export default { render };

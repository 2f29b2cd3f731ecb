// Soft lookup explorer: a query among keys in a plane, computed here in float64 from the float32 numbers of the model.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const PAD = 34; // pixels around the plane, room for labels and for a query at its edge
const PLANE = { least: 230, most: 420 }; // pixels
const LABEL = 8.2; // pixels, about the width of a letter
const THICK = 14; // pixels, the line of a weight of 1
const GRIP = 22; // pixels, half of what a finger has to hit
const ARROW = 52; // pixels, the arrow of a slope that is steep without end
const STEPS = 40; // of the query, from the origin to the edge
const FAR_STEPS = 5; // with Shift
const TIE = 1e-6; // scores this close, relative to the largest, are equal to a float32
// The limit, then six steps to each power of ten.
const TEMPERATURES = [0, ...[0.01, 0.1, 1].flatMap((unit) => [1, 1.5, 2, 3, 5, 7].map((n) => n * unit)), 10];

const exact = (value) => Number(value.toPrecision(12)); // 0.3, not 0.30000000000000004
const asTemperature = (value) => (value === 0 ? "0, the arg-max" : readable(value, 3));

/** Scores, weights, answer, the keys with the highest score, and the slope of the answer over the query. */
function lookUp({ points, values, x, y, score, temperature }) {
  const scores = points.map(([kx, ky]) =>
    score === "dot" ? x * kx + y * ky : -((x - kx) * (x - kx) + (y - ky) * (y - ky)) / 2,
  );
  const top = Math.max(...scores);
  const room = TIE * Math.max(...scores.map(Math.abs));
  const highest = scores.flatMap((value, j) => (top - value <= room ? [j] : []));
  // The largest score is taken off first: exp of a large number would overflow, and the shares stay the same.
  const shares = scores.map((value, j) =>
    temperature === 0 ? Number(highest.includes(j)) : Math.exp((value - top) / temperature),
  );
  const sum = total(shares);
  const weights = shares.map((share) => share / sum);
  const mean = (numbers) => total(numbers.map((number, j) => weights[j] * number));
  const slope = [0, 1].map((axis) => {
    const along = points.map((point) => point[axis]);
    const centre = mean(along);
    return temperature === 0 ? 0 : mean(along.map((at, j) => (at - centre) * values[j])) / temperature;
  });
  return { scores, weights, highest, slope, answer: mean(values) };
}

/** The query that is dragged: a handle for pointer, finger and keyboard. */
function handle({ life, svg, reach, at, onMove, toPlane }) {
  const grip = takesKeys(
    shape(
      "g",
      {
        class: "attnlab-grip",
        role: "slider",
        tabindex: 0,
        "aria-label": "Query in the plane, moved by all four arrow keys",
        "aria-valuemin": -reach,
        "aria-valuemax": reach,
      },
      shape("circle", { class: "attnlab-grip-room", r: GRIP }),
      shape("circle", { class: "attnlab-grip-mark", r: 11 }),
      shape("text", { class: "attnlab-grip-name", y: 4.5, "text-anchor": "middle", "aria-hidden": "true" }, "q"),
    ),
  );
  // A finger drags the query itself; elsewhere it scrolls the page, and a tap calls the query there.
  let held = null; // how far from the middle of the handle it was taken
  const pointed = (event) => {
    const box = svg.getBoundingClientRect();
    return toPlane(event.clientX - box.left, event.clientY - box.top);
  };
  const follow = (event) => {
    const place = pointed(event);
    onMove(place[0] - held[0], place[1] - held[1]);
  };
  life.listen(svg, "pointerdown", (event) => {
    held = null;
    const onGrip = grip.contains(event.target);
    if (event.button !== 0 || (event.pointerType === "touch" && !onGrip)) return;
    held = onGrip ? pointed(event).map((value, axis) => value - at()[axis]) : [0, 0];
    svg.setPointerCapture(event.pointerId);
    event.preventDefault(); // no text is selected on the way
    grip.focus({ preventScroll: true });
    if (!onGrip) follow(event);
  });
  life.listen(svg, "pointermove", (event) => {
    if (held && svg.hasPointerCapture(event.pointerId)) follow(event); // a finger's events are always captured
  });
  life.listen(svg, "click", (event) => {
    if (!held && event.detail > 0) onMove(...pointed(event));
  });
  life.listen(grip, "touchstart", (event) => event.preventDefault(), { passive: false });
  life.listen(grip, "keydown", (event) => {
    const by = (event.shiftKey ? FAR_STEPS : 1) * (reach / STEPS);
    const [x, y] = at();
    const moves = {
      ArrowRight: [x + by, y],
      ArrowLeft: [x - by, y],
      ArrowUp: [x, y + by],
      ArrowDown: [x, y - by],
      Home: [0, 0],
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onMove(...moves[event.key]);
  });
  return grip;
}

/** The plane with its axes, keys, lines of weight, the query, and an arrow that points uphill. */
function plane({ life, names, axes, reach, shownValues, spread, at, onMove }) {
  const svg = shape("svg", { class: "attnlab-plane", role: "group", "aria-label": "The query among the keys" });
  const hidden = () => shape("g", { "aria-hidden": "true" });
  const [ground, vectors, drawn, uphill] = [hidden(), hidden(), hidden(), hidden()];
  let size, scale;
  const place = ([x, y]) => [size / 2 + x * scale, size / 2 - y * scale];
  const toPlane = (left, top) => [(left - size / 2) / scale, (size / 2 - top) / scale];
  const grip = handle({ life, svg, reach, at, onMove, toPlane });
  svg.append(ground, vectors, drawn, uphill, grip);

  function line(kind, from, to, more = {}) {
    const [[x1, y1], [x2, y2]] = [place(from), place(to)];
    return shape("line", { class: `attnlab-${kind}`, x1, y1, x2, y2, ...more });
  }

  function layOut(room) {
    size = clamp(Math.floor(room), PLANE.least, PLANE.most);
    scale = (size / 2 - PAD) / reach;
    fill(svg, { width: size, height: size }, []);
    const note = (text, x, y, anchor) => shape("text", { x, y, "text-anchor": anchor }, text);
    const unit = 10 ** Math.floor(Math.log10(reach));
    const step = reach < 2 * unit ? unit : reach / 2;
    const ticks = [-2, -1, 1, 2]
      .map((times) => times * step)
      .filter((value) => Math.abs(value) <= reach)
      .flatMap((value) => {
        const [x, y] = place([value, value]);
        const text = readable(value, 3);
        return [note(text, x, size / 2 - 13, "middle"), note(text, size / 2 - 12, y + 4, "end")];
      });
    ground.replaceChildren(
      shape("rect", { class: "attnlab-plane-line", x: 1, y: 1, width: size - 2, height: size - 2, rx: 6 }),
      line("plane-line", [-reach, 0], [reach, 0]),
      line("plane-line", [0, -reach], [0, reach]),
      ...ticks,
      note(`${axes[0]} →`, size - 8, size / 2 - 30, "end"),
      note(`${axes[1]} ↑`, size / 2 + 8, 18, "start"),
    );
  }

  function keyMark([kx, ky], j) {
    const [x, y] = place([kx, ky]);
    const half = ((names[j].length + shownValues[j].length + 1) * LABEL) / 2;
    return [
      shape("path", { class: "attnlab-lookup-key", d: `M${x} ${y - 8}l8 8l-8 8l-8-8Z` }),
      shape(
        "text",
        { x: clamp(x, half, size - half), y: ky > 1e-3 * reach ? y - 14 : y + 24, "text-anchor": "middle" },
        shape("tspan", { class: "attnlab-key-name" }, names[j]),
        shape("tspan", { class: "attnlab-key-value", dx: 5 }, shownValues[j]),
      ),
    ];
  }

  function paint({ points, weights, slope, isDot, valueText }) {
    const query = at();
    const origin = [0, 0];
    const fromOrigin = isDot ? points.map((point) => line("key-vector", origin, point)) : [];
    vectors.replaceChildren(...fromOrigin, ...(isDot ? [line("query-vector", origin, query)] : []));
    drawn.replaceChildren(
      ...points.map((point) => line("lookup-path", query, point)),
      ...points.map((point, j) => line("lookup-link", query, point, { "stroke-width": THICK * weights[j] })),
      ...points.flatMap(keyMark),
    );
    const steepness = (Math.hypot(...slope) * reach) / spread;
    const length = (ARROW * steepness) / (steepness + 1);
    const here = `translate(${place(query).join(" ")})`;
    const turn = (Math.atan2(-slope[1], slope[0]) * 180) / Math.PI;
    uphill.replaceChildren(
      ...(length < 2
        ? []
        : [
            shape("path", {
              class: "attnlab-uphill",
              d: `M12-1.5H${14 + length}V-6L${24 + length} 0L${14 + length} 6V1.5H12Z`,
              transform: `${here} rotate(${turn})`,
            }),
          ]),
    );
    fill(grip, { transform: here, "aria-valuenow": query[0], "aria-valuetext": valueText }, []);
  }
  return { svg, layOut, paint };
}

/** One row for each key with its weight and value as bars and numbers, and one for the answer. */
function lookupRows({ names, values, shownValues }) {
  const low = Math.min(0, ...values);
  const span = Math.max(0, ...values) - low || 1;
  const list = element("ol", {
    class: "attnlab-bars attnlab-lookup-rows",
    "aria-label": "Keys with their weights and values, and their mean under the weights",
  });
  const head = element(
    "li",
    { class: "attnlab-lookup-head", "aria-hidden": "true" },
    ...["key", "weight", "value"].map((text) => element("span", {}, text)),
  );
  function row(name, weight, value, text, marked) {
    const node = weightBar(name, weight, marked);
    const bar = element("span", { class: "attnlab-bar" });
    bar.style.marginInlineStart = `${(100 * (Math.min(0, value) - low)) / span}%`;
    bar.style.width = `${(100 * Math.abs(value)) / span}%`;
    node.append(
      element("span", { class: "attnlab-track attnlab-value-track", "aria-hidden": "true" }, bar),
      element("span", { class: "attnlab-bar-number" }, text),
    );
    return node;
  }
  function paint({ weights, highest, answer, answerText }) {
    const rows = names.map((name, j) => row(name, weights[j], values[j], shownValues[j], highest.includes(j)));
    rows.forEach((node, j) => (node.dataset.weight = weights[j]));
    const sum = row("mean", 1, answer, answerText);
    sum.className = "attnlab-lookup-sum";
    list.replaceChildren(head, ...rows, sum);
  }
  return { list, paint };
}

/** The controls, each tied to its trait. */
function lookupControls({ here, model, move, axes, reach, names }) {
  const along = (axis) =>
    slider({
      stage: here,
      label: `q ${axes[axis]}`,
      min: -reach,
      max: reach,
      step: reach / STEPS,
      show: (value) => fixed(value),
      onInput: (value) => (axis ? move(model.get("x"), value) : move(value, model.get("y"))),
    });
  const stretched = model.get("stretched");
  const all = {
    score: choice({
      stage: here,
      label: "Score",
      options: [
        ["dot", "dot product q·k"],
        ["distance", "distance −‖q−k‖²/2"],
      ],
      onChange: (value) => here.set("score", value),
    }),
    temperature: slider({
      stage: here,
      label: "Temperature τ",
      min: 0,
      max: TEMPERATURES.length - 1,
      show: () => asTemperature(model.get("temperature")),
      onInput: (stop) => here.set("temperature", exact(TEMPERATURES[stop])),
    }),
    stretch: slider({
      stage: here,
      label: `Stretch key ${names[stretched]}`,
      min: 0.5,
      max: 1.5,
      step: 0.1,
      show: (value) => `× ${value.toFixed(1)}`,
      onInput: (value) => here.set("stretch", value),
    }),
    x: along(0),
    y: along(1),
  };
  for (const [trait, { input }] of Object.entries(all)) input.dataset.trait = trait;
  const group = (...traits) =>
    element("div", { class: "attnlab-controls" }, ...traits.map((trait) => all[trait].node));
  const stopOf = (value) => TEMPERATURES.findLastIndex((stop) => stop <= value * (1 + 1e-9));
  return {
    top: group("score", "temperature", ...(stretched < 0 ? [] : ["stretch"])),
    below: group("x", "y"),
    show() {
      for (const trait of ["score", "stretch", "x", "y"]) all[trait].set(model.get(trait));
      all.temperature.set(stopOf(model.get("temperature")));
    },
  };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Soft lookup explorer", kind: "lookup" });
  const { life } = here;
  const [names, axes, reach] = ["names", "axes", "reach"].map((trait) => model.get(trait));
  const unit = model.get("unit") && `\u00a0${model.get("unit")}`; // stays on the line of its number
  const values = [...floats(model.get("values"))];
  const flat = floats(model.get("keys_xy"));
  const shownValues = values.map((value) => readable(value, 3) + unit);
  const spread = Math.max(...values) - Math.min(...values) || 1;
  const at = () => [model.get("x"), model.get("y")];
  let points, result;

  function move(x, y) {
    // To the grid of the sliders, and never minus zero.
    const [nextX, nextY] = [x, y].map((value) => {
      const steps = clamp(Math.round((value * STEPS) / reach), -STEPS, STEPS);
      return exact((steps * reach) / STEPS) || 0;
    });
    model.set("x", nextX);
    here.set("y", nextY);
  }

  function compute() {
    points = values.map((_, j) => {
      const factor = j === model.get("stretched") ? model.get("stretch") : 1;
      return [flat[2 * j] * factor, flat[2 * j + 1] * factor];
    });
    const [x, y] = at();
    result = lookUp({ points, values, x, y, score: model.get("score"), temperature: model.get("temperature") });
    const inHundredths = spread >= 0.1 && spread < 1e4;
    result.answerText = (inHundredths ? fixed(result.answer) : readable(result.answer, 3)) + unit;
  }

  const where = () =>
    at()
      .map((value, axis) => `${axes[axis]} ${fixed(value)}`)
      .join(", ");
  const temperatureText = () => `temperature ${asTemperature(model.get("temperature"))}`;

  function facts() {
    const { highest, slope } = result;
    const listed = new Intl.ListFormat("en-GB").format(highest.map((j) => names[j]));
    const isTie = highest.length > 1;
    return [
      isTie
        ? `${listed} share the highest score: at a tie no temperature chooses.`
        : `${listed} has the highest score: the arg-max answers ${shownValues[highest[0]]}.`,
      model.get("temperature") > 0
        ? `Slope for each unit that q moves: ${slope.map((part, axis) => `${axes[axis]} ${readable(part)}${unit}`).join(", ")}.`
        : isTie
          ? "No slope: with a small move the answer jumps."
          : "Slope 0: a small move of q changes nothing.",
    ];
  }

  const panel = lookupControls({ here, model, move, axes, reach, names });
  const field = plane({ life, names, axes, reach, shownValues, spread, at, onMove: move });
  const rows = lookupRows({ names, values, shownValues });
  const frame = element("div", {}, field.svg);
  const title = element("p", { class: "attnlab-lookup-answer" });
  const sentences = [0, 1].map(() => element("p", { class: "attnlab-fact" }));
  const hint = element(
    "p",
    { class: "attnlab-fact" },
    "Drag q, press a place, or use the arrow keys on q (with Shift further; Home is the origin). Lines are as thick as the weights. The arrow at q points where the answer rises fastest.",
  );
  const table = valueTable({
    stage: here,
    summary: "Values as a table",
    content: () => ({
      caption: `Query ${where()}; ${temperatureText()}. The answer is the sum of weight × value.`,
      columns: ["Key", ...axes, "Score", "Weight", "Value", "Weight × value"],
      rows: [
        ...names.map((name, j) => [
          name,
          ...points[j].map((part) => fixed(part)),
          fixed(result.scores[j], 4),
          result.weights[j].toFixed(4),
          shownValues[j],
          fixed(result.weights[j] * values[j], 4),
        ]),
        ["Sum", "", "", "", "1.0000", "", fixed(result.answer, 4)],
      ],
    }),
  });
  here.add(
    panel.top,
    element(
      "div",
      { class: "attnlab-lookup-columns" },
      frame,
      element("div", { class: "attnlab-lookup-side" }, title, rows.list, ...sentences, hint),
      panel.below,
    ),
    table.node,
  );

  let laidOut = 0;
  function draw() {
    compute();
    if (frame.clientWidth !== laidOut) field.layOut((laidOut = frame.clientWidth));
    const { answerText } = result;
    panel.show();
    const isDot = model.get("score") === "dot";
    field.paint({ ...result, points, isDot, valueText: `${where()}, answer ${answerText}` });
    rows.paint(result);
    title.textContent = `Answer: ${answerText}`;
    facts().forEach((text, i) => (sentences[i].textContent = text));
    const [x, y] = at();
    Object.assign(here.root.dataset, { x, y, answer: result.answer, slope: result.slope.join(" ") });
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => {
    const most = result.weights.indexOf(Math.max(...result.weights));
    const kind = model.get("score") === "dot" ? "Dot product" : "Distance";
    return `${kind}, ${temperatureText()}. Query ${where()}. Answer ${result.answerText}, most weight on ${names[most]}: ${result.weights[most].toFixed(2)}.`;
  };
  life.watch(model, ["x", "y", "score", "temperature", "stretch"], () => (redraw(), here.announce(inSentences)));
  life.onResize(frame, redraw);
  draw();
  return here.remove;
}

export default { render };

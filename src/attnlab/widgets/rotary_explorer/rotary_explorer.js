// Rotary explorer: pairs of a query and a key as hands that turn with their places, computed here in float64.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const LAST = 63; // place of the query and of the key, before both are shifted
const LARGEST_SHIFT = 192;
const BASES = [1, 2, 3, 4, 5].flatMap((power) => [10 ** power, 3 * 10 ** power]).concat(1e6);
const CLOCK = { rim: 46, hand: 41, arc: 15 }; // of a picture that is 100 wide
const CURVE = { height: 130, left: 30, right: 10, top: 10, bottom: 32 }; // pixels

const degrees = (radians) => (radians * 180) / Math.PI;
const signed = (value) => (value > 0.005 ? "+" : "") + fixed(value);
const grouped = (value) => value.toLocaleString("en-GB");
const speedsOf = (pairs, base) => upTo(pairs).map((i) => base ** (-i / pairs));
const product = ([a, b], [c, d]) => a * c + b * d;

/** The pairs of numbers [a, b], each turned by its own speed times the place. */
function turn(pairs, speeds, place) {
  return pairs.map(([a, b], i) => {
    const [cos, sin] = [Math.cos(place * speeds[i]), Math.sin(place * speeds[i])];
    return [a * cos - b * sin, a * sin + b * cos];
  });
}

/** One pair: a clock with both hands, and below it its speed and its part of the score, as a number and as a bar. */
function clock(i) {
  const line = (kind) => shape("line", { class: `attnlab-${kind}` });
  const [query, key] = ["hand-query", "hand-key"].map(line);
  const between = shape("path", { class: "attnlab-between" });
  const tips = ["query", "key"].map((kind) => shape("circle", { class: `attnlab-tip-${kind}`, r: 5 }));
  const rim = shape("circle", { class: "attnlab-rim", r: CLOCK.rim });
  const all = [rim, between, query, key, ...tips];
  const speed = element("span");
  const number = element("b");
  const bar = element("span", { class: "attnlab-bar" });
  const node = element(
    "li",
    {},
    shape("svg", { viewBox: "-50 -50 100 100", "aria-hidden": "true" }, ...all),
    element("span", { class: "attnlab-spoken" }, `pair ${i}, each place `),
    speed,
    element("span", { class: "attnlab-spoken" }, ", product "),
    number,
    element("span", { class: "attnlab-track attnlab-product", "aria-hidden": "true" }, bar),
  );
  // Upwards on the screen is the second number of a pair; SVG counts downwards.
  const point = (pair, scale) => [pair[0] * scale, -pair[1] * scale];
  function paint({ hands, longer, turnedBy, value, largest }) {
    [query, key].forEach((at, j) => {
      const [x, y] = point(hands[j], CLOCK.hand / longer);
      fill(at, { x2: x, y2: y }, []);
      fill(tips[j], { cx: x, cy: y }, []);
    });
    const [from, to] = hands.map(([a, b]) => Math.atan2(b, a));
    const sweep = (to - from + 2 * Math.PI) % (2 * Math.PI) < Math.PI ? 0 : 1; // the shorter way round
    const end = (angle) => point([Math.cos(angle), Math.sin(angle)], CLOCK.arc).map((at) => at.toFixed(2));
    between.setAttribute("d", `M${end(from).join(" ")}A${CLOCK.arc} ${CLOCK.arc} 0 0 ${sweep} ${end(to).join(" ")}`);
    speed.textContent = `${readable(degrees(turnedBy))}°`;
    number.textContent = signed(value);
    const share = Math.abs(value) / largest / 2;
    bar.style.width = `${100 * share}%`;
    bar.style.marginInlineStart = `${100 * (value < 0 ? 0.5 - share : 0.5)}%`;
    Object.assign(node.dataset, { product: value, hands: hands.flat().join(" ") });
  }
  return { node, paint };
}

/** The score for each place of the key, with the present one marked. */
function paintCurve(svg, { width, scores, bound, keyPlace, queryPlace, shift }) {
  const { height, left, right, top, bottom } = CURVE;
  const across = (place) => left + (place / LAST) * (width - left - right);
  const down = (score) => top + (0.5 - score / bound / 2) * (height - top - bottom);
  const note = (x, y, text, anchor = "middle") => shape("text", { x, y, "text-anchor": anchor }, text);
  const path = (kind, d) => shape("path", { class: `attnlab-${kind}`, d });
  const at = (place) => `${across(place).toFixed(1)} ${down(scores[place]).toFixed(1)}`;
  const base = height - bottom;
  fill(svg, { width, height }, []);
  svg.replaceChildren(
    path("curve-axis", `M${left} ${down(0)}H${width - right}M${left} ${top}V${base}`),
    path("curve-query", `M${across(queryPlace)} ${top}V${base}`),
    path("curve-scores", `M${scores.map((_, place) => at(place)).join("L")}`),
    shape("circle", { class: "attnlab-curve-here", cx: across(keyPlace), cy: down(scores[keyPlace]), r: 6 }),
    note(left - 6, down(0) + 4, "0", "end"),
    ...[0, 21, 42, LAST].map((place) => note(across(place), base + 14, String(place + shift))),
    note((left + width - right) / 2, height - 3, "place of the key"),
  );
  svg.dataset.scores = scores.join(" ");
}

function controls({ here, model }) {
  const places = (trait, label, max) =>
    slider({ stage: here, label, min: 0, max, onInput: (value) => here.set(trait, value) });
  const all = {
    query_place: places("query_place", "Query at m", LAST),
    key_place: places("key_place", "Key at n", LAST),
    shift: places("shift", "Shift both", LARGEST_SHIFT),
    base: slider({
      stage: here,
      label: "Base",
      min: 0,
      max: BASES.length - 1,
      show: () => grouped(model.get("base")),
      onInput: (stop) => here.set("base", BASES[stop]),
    }),
  };
  for (const [trait, { input }] of Object.entries(all)) input.dataset.trait = trait;
  return {
    node: element("div", { class: "attnlab-controls" }, ...Object.values(all).map(({ node }) => node)),
    show() {
      for (const trait of ["query_place", "key_place", "shift"]) all[trait].set(model.get(trait));
      all.base.set(Math.max(0, BASES.findLastIndex((stop) => stop <= model.get("base"))));
    },
  };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Rotary explorer", kind: "rotary" });
  const { life } = here;
  const vectors = ["query", "key"].map((trait) => {
    const numbers = floats(model.get(trait));
    return upTo(numbers.length / 2).map((i) => [numbers[2 * i], numbers[2 * i + 1]]);
  });
  const pairs = vectors[0].length;
  const lengths = vectors.map((vector) => vector.map((pair) => Math.hypot(...pair)));
  const bounds = lengths[0].map((length, i) => length * lengths[1][i]); // of the products, at any place
  const most = Math.max(...bounds) || 1;
  let now;

  function compute() {
    const [m, n, shift, base] = ["query_place", "key_place", "shift", "base"].map((trait) => model.get(trait));
    const speeds = speedsOf(pairs, base);
    const [query, key] = vectors;
    const sum = (one, other) => total(one.map((pair, i) => product(pair, other[i])));
    const hands = [turn(query, speeds, m + shift), turn(key, speeds, n + shift)];
    const products = hands[0].map((pair, i) => product(pair, hands[1][i]));
    const unmoved = sum(turn(query, speeds, m), turn(key, speeds, n));
    const scores = upTo(LAST + 1).map((place) => sum(hands[0], turn(key, speeds, place + shift)));
    now = { m, n, shift, base, speeds, hands, products, unmoved, scores, score: total(products) };
  }
  const where = () => `Query at ${now.m + now.shift}, key at ${now.n + now.shift}, distance ${fixed(now.m - now.n, 0)}`;
  const scored = () => `score ${fixed(now.score)}`;
  function compared() {
    if (!now.shift) return "Not shifted. Shift both, and look at the hands and at the score.";
    const off = Math.abs(now.score - now.unmoved);
    const moved = off ? `moved by ${readable(off, 1)}${off < 1e-9 ? ", which is rounding" : ""}` : "did not move";
    return `Both are shifted by ${now.shift}. Without the shift the score is ${fixed(now.unmoved)}: it ${moved}.`;
  }

  const panel = controls({ here, model });
  const clocks = upTo(pairs).map(clock);
  const title = element("p", { class: "attnlab-rotary-score" });
  const [place, comparison, key] = [0, 1, 2].map(() => element("p", { class: "attnlab-fact" }));
  comparison.classList.add("attnlab-rotary-compared");
  key.append(
    "One clock for each pair. ",
    element("b", { class: "attnlab-is-query" }, "Solid: the query."),
    " ",
    element("b", { class: "attnlab-is-key" }, "Dashed: the key."),
    " The longer one reaches the rim. Below: the turn for one place, anticlockwise, and what the pair adds to the score.",
  );
  const curveTitle = element("p", { class: "attnlab-fact" }, "Score for each place of the key. Dotted: the query.");
  const svg = shape("svg", { class: "attnlab-rotary-curve", "aria-hidden": "true" });
  const curve = element("div", {}, curveTitle, svg);
  const table = valueTable({
    stage: here,
    summary: "Pairs and scores as a table",
    content: () => ({
      caption: `${where()}, base ${grouped(now.base)}. Angles in degrees.`,
      columns: ["pair", "dimensions", "turn a place", "query's angle", "key's angle", "between", "product"],
      rows: [
        ...now.products.map((value, i) => {
          const [query, at] = now.hands.map((all) => degrees(Math.atan2(all[i][1], all[i][0])));
          const between = Math.abs(((((query - at + 180) % 360) + 360) % 360) - 180);
          return [i, `${2 * i}, ${2 * i + 1}`, readable(degrees(now.speeds[i]), 3), fixed(query, 1), fixed(at, 1), fixed(between, 1), fixed(value, 4)];
        }),
        ["sum", "", "", "", "", "", fixed(now.score, 4)],
      ],
    }),
  });
  here.add(
    panel.node,
    element(
      "div",
      { class: "attnlab-rotary-columns" },
      element("div", {}, title, place, comparison),
      element("div", {}, element("ol", { class: "attnlab-clocks" }, ...clocks.map(({ node }) => node)), key),
      curve,
    ),
    table.node,
  );

  function draw() {
    compute();
    panel.show();
    clocks.forEach((one, i) =>
      one.paint({
        hands: now.hands.map((all) => all[i]),
        longer: Math.max(lengths[0][i], lengths[1][i]) || 1,
        turnedBy: now.speeds[i],
        value: now.products[i],
        largest: most,
      }),
    );
    title.textContent = `Score: ${fixed(now.score)}`;
    place.textContent = `${where()}. The score is the sum of ${pairs} product${pairs > 1 ? "s" : ""}.`;
    comparison.textContent = compared();
    const width = Math.max(200, Math.floor(curve.clientWidth));
    paintCurve(svg, { width, scores: now.scores, bound: total(bounds) || 1, keyPlace: now.n, queryPlace: now.m, shift: now.shift });
    Object.assign(here.root.dataset, { score: now.score, unmoved: now.unmoved });
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => `${where()}, base ${grouped(now.base)}: ${scored()}. ${compared()}`;
  life.watch(model, ["query_place", "key_place", "shift", "base"], () => {
    redraw();
    here.announce(inSentences);
  });
  life.onResize(curve, redraw);
  draw();
  return here.remove;
}

export default { render };

// Head switches: the sum over the heads that are on, computed here in float64, and the accuracy measured for that set.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const signed = (value) => (value < -0.05 ? "−" : value > 0.05 ? "+" : "") + Math.abs(value).toFixed(1);
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.01 ? 1 : 0)}%`;

/** What each part adds to the right class, less its mean over the classes; the sum of those that are on; the answer. */
function addUp({ parts, on, right }) {
  const mean = (row) => row.reduce((sum, number) => sum + number, 0) / row.length;
  return right.map((truth, r) => {
    const adds = parts.map((rows) => rows[r][truth] - mean(rows[r]));
    const logits = parts[0][r].map((_, c) => parts.reduce((sum, rows, h) => sum + (on[h] ? rows[r][c] : 0), 0));
    const largest = Math.max(...logits);
    const shares = logits.map((logit) => Math.exp(logit - largest));
    const probability = shares[truth] / shares.reduce((sum, share) => sum + share, 0);
    const sum = adds.reduce((total, add, h) => total + (on[h] ? add : 0), 0);
    return { adds, sum, named: logits.indexOf(largest), probability, truth };
  });
}

/** The table: a row with a switch for each head, the bias, the sum, and what the sum names. */
function sumTable({ outputs, heads, switches }) {
  const cells = (tag = "td") => outputs.map(() => element(tag, {}));
  const row = (head, kind, own = cells()) => ({
    cells: own,
    node: element("tr", { class: `attnlab-${kind}` }, element("th", { scope: "row" }, head), ...own),
  });
  const parts = [
    ...upTo(heads).map((h) => row(switches[h].node, "part")),
    row(element("span", { class: "attnlab-switch-name" }, "bias"), "part"),
  ];
  const [sum, names, truths] = [row("sum", "total"), row("names", "names"), row("right is", "names")];
  const node = element(
    "table",
    { class: "attnlab-sums" },
    element("caption", { class: "attnlab-spoken" }, "What each head adds to the right token of each output"),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("th", { scope: "col" }, element("span", { class: "attnlab-spoken" }, "Part")),
        ...outputs.map((text) => element("th", { scope: "col" }, text)),
      ),
    ),
    element("tbody", {}, ...[...parts, sum, names, truths].map((one) => one.node)),
  );
  function paint({ results, on, largest }) {
    results.forEach(({ adds, sum: total, named, probability, truth }, r) => {
      adds.forEach((add, h) => {
        const cell = parts[h].cells[r];
        cell.textContent = signed(add);
        cell.dataset.add = add;
        cell.style.setProperty("--share", clamp(add / largest, 0, 1));
        cell.classList.toggle("attnlab-on-dark", on[h] && add / largest >= LIGHT_INK_FROM);
      });
      sum.cells[r].textContent = signed(total);
      sum.cells[r].dataset.sum = total;
      truths.cells[r].textContent = truth;
      const isRight = named === truth;
      names.cells[r].textContent = isRight ? `${named} ✓` : `${named} ✗`;
      names.cells[r].append(element("span", { class: "attnlab-spoken" }, isRight ? " right" : " wrong"));
      names.cells[r].classList.toggle("attnlab-missed", !isRight);
      Object.assign(names.cells[r].dataset, { named, probability });
    });
    parts.forEach((part, h) => part.node.classList.toggle("attnlab-off", !on[h]));
  }
  return { node, paint };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Head switches", kind: "switches" });
  const { life } = here;
  const outputs = model.get("outputs");
  const [examples, heads, R, V] = model.get("shape");
  const flat = floats(model.get("parts"));
  const measured = floats(model.get("measured"));
  const { buffer, byteOffset, byteLength } = model.get("right");
  const rights = new Uint8Array(buffer, byteOffset, byteLength);
  const every = 2 ** heads - 1;
  const accuracyOf = (set) => [...measured.subarray(set * (R + 1), (set + 1) * (R + 1))];
  const partsOf = (p) =>
    upTo(heads + 1).map((h) =>
      upTo(R).map((r) => {
        const from = ((p * (heads + 1) + h) * R + r) * V;
        return [...flat.subarray(from, from + V)];
      }),
    );
  let on, results, accuracy;

  function compute() {
    const p = model.get("example");
    const set = model.get("heads_on");
    on = [...upTo(heads).map((h) => (set >> h) % 2 === 1), true];
    results = addUp({ parts: partsOf(p), on, right: [...rights.subarray(p * R, (p + 1) * R)] });
    accuracy = accuracyOf(set);
  }
  compute();

  const turn = (h, isOn) => here.set("heads_on", isOn ? model.get("heads_on") | (1 << h) : model.get("heads_on") & ~(1 << h));
  const switches = upTo(heads).map((h) => {
    const one = checkbox({ stage: here, label: `head ${h + 1}`, onChange: (isOn) => turn(h, isOn) });
    one.input.dataset.head = h;
    return one;
  });
  const all = button({ stage: here, label: "All on", text: "All on", onPress: () => here.set("heads_on", every) });
  const none = button({ stage: here, label: "All off", text: "All off", onPress: () => here.set("heads_on", 0) });
  const example = slider({
    stage: here,
    label: "Example",
    min: 1,
    max: examples,
    show: (value) => `${value} of ${examples}`,
    onInput: (value) => here.set("example", value - 1),
  });
  example.input.dataset.trait = "example";
  const sums = sumTable({ outputs, heads, switches });
  const title = element("p", { class: "attnlab-title" });
  const names = [...outputs, R > 1 ? `all ${R}` : "all"];
  const bars = element("ol", { class: "attnlab-bars", "aria-label": "Measured: share of positions that are right" });
  const fact = element(
    "p",
    { class: "attnlab-fact" },
    "Measured for exactly this set of heads: the share of positions at which the right token is named. Frames: all heads on.",
  );
  const table = valueTable({
    stage: here,
    summary: "Measured shares and this sum as a table",
    content: () => ({
      caption: `Heads on: ${onText()}. Measured shares with each head in turn switched over, and the sum of example ${model.get("example") + 1}.`,
      columns: ["What", ...names],
      rows: [
        ["measured, these heads", ...accuracy.map((share) => share.toFixed(4))],
        ...upTo(heads).map((h) => {
          const set = model.get("heads_on") ^ (1 << h);
          return [`measured, with head ${h + 1} ${on[h] ? "off" : "on"}`, ...accuracyOf(set).map((share) => share.toFixed(4))];
        }),
        ...upTo(heads + 1).map((h) => [
          h < heads ? `head ${h + 1} adds${on[h] ? "" : ", but is off"}` : "bias adds",
          ...results.map(({ adds }) => adds[h].toFixed(4).replace("-", "−")),
          "",
        ]),
        ["sum", ...results.map(({ sum }) => sum.toFixed(4).replace("-", "−")), ""],
        ["probability of the right token", ...results.map(({ probability }) => probability.toFixed(4)), ""],
      ],
    }),
  });
  here.add(
    element(
      "div",
      { class: "attnlab-controls" },
      element("div", { class: "attnlab-switch-buttons" }, all, none),
      ...(examples > 1 ? [example.node] : []),
    ),
    element(
      "div",
      { class: "attnlab-switch-columns" },
      element(
        "div",
        {},
        sums.node,
        element(
          "p",
          { class: "attnlab-fact" },
          "In a cell: the logit that a head adds to the right token, less what it adds to all tokens on average.",
        ),
      ),
      element("div", {}, title, bars, fact),
    ),
    table.node,
  );

  const onText = () => {
    const named = upTo(heads).filter((h) => on[h]);
    return named.length === heads ? "all" : named.length ? enumerated(named.map((h) => h + 1)) : "none";
  };
  function draw() {
    const largest = Math.max(...results.flatMap(({ adds }) => adds.map(Math.abs))) || 1;
    switches.forEach((one, h) => one.set(on[h]));
    example.set(model.get("example") + 1);
    sums.paint({ results, on, largest });
    title.textContent = `Heads on: ${onText()}`;
    const full = accuracyOf(every);
    bars.replaceChildren(
      ...accuracy.map((share, r) => {
        const line = weightBar(names[r], share, r === R, full[r]);
        line.querySelector(".attnlab-bar-number").textContent = percent(share);
        line.dataset.share = share;
        return line;
      }),
    );
    Object.assign(here.root.dataset, { on: model.get("heads_on"), example: model.get("example") });
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => {
    const right = results.flatMap(({ named, truth }, r) => (named === truth ? [outputs[r]] : []));
    return `Heads on: ${onText()}. Measured: ${accuracy.map((share, r) => `${names[r]} ${percent(share)}`).join(", ")}. In this example right: ${right.length ? enumerated(right) : "none"}.`;
  };
  life.watch(model, ["heads_on", "example"], () => (compute(), redraw(), here.announce(inSentences)));
  draw();
  return here.remove;
}

export default { render };

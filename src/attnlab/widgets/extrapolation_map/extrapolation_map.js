// Extrapolation map: measured accuracies of kinds of positions, by the length of the test.
// Names that are not defined here come from ../_shared.js and ../_map.js, which stand before this text.

function render({ model, el }) {
  const here = stage({ model, el, name: "Extrapolation map", kind: "extrapolation" });
  const { life } = here;
  const [jobs, kinds, lengths, trained] = ["jobs", "kinds", "lengths", "trained"].map((trait) => model.get(trait));
  const measured = floats(model.get("measured"));
  const accuracy = (job, row, column) => measured[(job * kinds.length + row) * lengths.length + column];
  const now = () => ["job", "row", "column"].map((trait) => model.get(trait));
  const points = (change) => (change >= 0.005 ? "+" : "") + fixed(change); // no sign before 0.00

  const job = choice({
    stage: here,
    label: "Job",
    options: jobs.map((text, at) => [at, text]),
    onChange: (value) => here.set("job", Number(value)),
  });
  job.input.dataset.trait = "job";
  const map = measuredMap({
    stage: here,
    label: "Map of accuracies",
    axes: ["positions ↓", "tokens in the test →"],
    rows: kinds.map((text, at) => ({ at, text })),
    columns: lengths.map((length, at) => ({ at, text: at === trained ? `trained\n${length}` : String(length), line: at === trained })),
    chosen: () => now().slice(1),
    onChoose(row, column) {
      model.set("row", row);
      here.set("column", column);
    },
  });
  const title = element("p", { class: "attnlab-title" });
  const list = element("ol", { class: "attnlab-bars", "aria-label": "All kinds at the chosen length" });
  const [told, key] = [0, 1].map(() => element("p", { class: "attnlab-fact" }));
  key.textContent = "In each cell the accuracy: stronger is higher. The double line: trained up to here.";
  const table = valueTable({
    stage: here,
    summary: "Accuracies as a table",
    content: () => ({
      caption: `Accuracy by kind of positions and length of the test; the trained length is ${lengths[trained]}.`,
      columns: ["job, positions", ...lengths.map(String)],
      rows: jobs.flatMap((text, j) =>
        kinds.map((kind, row) => [`${text}, ${kind}`, ...lengths.map((_, column) => fixed(accuracy(j, row, column), 4))]),
      ),
    }),
  });
  here.add(
    ...(jobs.length > 1 ? [element("div", { class: "attnlab-controls" }, job.node)] : []),
    element(
      "div",
      { class: "attnlab-extrapolation-columns" },
      element("div", {}, map.node, key),
      element("div", {}, title, list, told),
    ),
    table.node,
  );

  const tellOne = ([at, row, column]) => {
    const value = accuracy(at, row, column);
    const off = value - accuracy(at, row, trained);
    const against = column === trained ? "the trained length" : `${points(off)} against length ${lengths[trained]}`;
    return `${kinds[row]}, length ${lengths[column]}: ${fixed(value)} (${against})`;
  };
  const tell = () => {
    const [at, row, column] = now();
    const others = jobs.flatMap((text, j) => (j === at ? [] : [`${text} ${fixed(accuracy(j, row, column))}`]));
    return `${jobs[at]}, ${tellOne([at, row, column])}${others.length ? `. In the other job: ${others.join(", ")}` : ""}.`;
  };
  function draw() {
    const [at, row, column] = now();
    job.set(at);
    map.draw((i, j) => {
      const value = accuracy(at, i, j);
      return { lines: [fixed(value)], share: value, name: tellOne([at, i, j]) };
    });
    title.textContent = `${jobs[at]}, length ${lengths[column]}`;
    list.replaceChildren(
      ...kinds.map((kind, i) => {
        const line = weightBar(kind, accuracy(at, i, column), i === row, accuracy(at, i, trained));
        Object.assign(line.dataset, { accuracy: accuracy(at, i, column), trained: accuracy(at, i, trained) });
        return line;
      }),
    );
    told.textContent = `${tell()} Frames: at the trained length.`;
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  life.watch(model, ["job", "row", "column"], () => {
    redraw();
    here.announce(tell);
  });
  draw();
  return here.remove;
}

export default { render };

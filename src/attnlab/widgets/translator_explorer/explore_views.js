// What is drawn: the written words, arcs from one word to those that it looked at, and every head's weights.

const ROW = 26; // pixels of a word among the arcs
const MIDDLE = 0.46; // where the names of the keys end, as a share of the width

/** Words as buttons, of which the arrow keys choose one. `choose(place, byKey)` is told. */
function wordRow({ stage, label, choose }) {
  const node = element("div", { class: "attnlab-words", role: "toolbar", "aria-label": label });
  const place = (target) => [...node.children].indexOf(target.closest("button"));
  stage.life.listen(node, "click", (event) => event.target.closest("button") && choose(place(event.target)));
  stage.life.listen(node, "keydown", (event) => {
    const at = place(event.target);
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: node.children.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const to = clamp(moves[event.key], 0, node.children.length - 1);
    choose(to);
    node.children[to].focus();
  });
  return {
    node,
    /** Show words, the chosen one pressed; buttons stay where they are, so that none loses the focus. */
    draw(words, chosen) {
      while (node.children.length > words.length) node.lastChild.remove();
      while (node.children.length < words.length) node.append(takesKeys(element("button", { type: "button" })));
      words.forEach(({ text, differs, probability }, at) => {
        const word = node.children[at];
        if (word.textContent !== text) word.textContent = text;
        word.setAttribute("aria-pressed", String(at === chosen));
        word.tabIndex = at === chosen ? 0 : -1;
        word.classList.toggle("attnlab-differs", differs);
        word.classList.toggle("attnlab-unsure", probability < 0.5);
      });
    },
  };
}

/** Arcs from one query, on the right, to the keys on the left. `choose(place)` is told which query was pressed. */
function arcs({ stage, choose }) {
  const node = shape("svg", { class: "attnlab-arcs", role: "img" });
  stage.life.listen(node, "click", (event) => {
    const at = event.target.closest("[data-query]")?.dataset.query;
    if (at !== undefined) choose(Number(at));
  });
  return {
    node,
    draw({ keys, queries, query, weights, width, label }) {
      const height = ROW * Math.max(keys.length, queries.length);
      const y = (at) => ROW * (at + 0.5);
      const [left, right] = [MIDDLE * width - 40, MIDDLE * width + 60];
      for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": label }))
        node.setAttribute(name, value);
      const bow = (at) => {
        const [from, to] = [y(query), y(at)];
        const middle = (left + right) / 2;
        return `M${right - 6} ${from}C${middle} ${from} ${middle} ${to} ${left + 6} ${to}`;
      };
      const name = (text, at, attributes) =>
        shape("text", { y: y(at), "dominant-baseline": "central", ...attributes }, fitted(text, left));
      node.replaceChildren(
        ...keys.map((_, at) =>
          shape("path", {
            class: "attnlab-arc",
            d: bow(at),
            "stroke-width": 0.5 + 8 * weights[at],
            "stroke-opacity": 0.12 + 0.88 * weights[at],
            "data-weight": weights[at],
          }),
        ),
        ...keys.map((text, at) => name(text, at, { class: "attnlab-arc-key", x: left, "text-anchor": "end" })),
        ...queries.map((text, at) =>
          name(text, at, { class: at === query ? "attnlab-arc-query" : "attnlab-arc-other", x: right, "data-query": at }),
        ),
      );
    },
  };
}

/** A name cut to about a width, in pixels. */
function fitted(text, width) {
  const most = Math.max(4, Math.floor(width / 8.5));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Each head's weights over the keys: a row for each key, a column for each head, which a button chooses. */
function headTable({ stage, choose }) {
  const caption = element("caption", {});
  const [head, body] = [element("thead", {}), element("tbody", {})];
  const table = element("table", { class: "attnlab-heads" }, caption, head, body);
  const node = takesKeys(
    element("div", { class: "attnlab-scroll", tabindex: 0, role: "region", "aria-label": "Weights of every head" }, table),
  );
  stage.life.listen(head, "click", (event) => {
    const name = event.target.closest("button")?.dataset.head;
    if (name) choose(name);
  });
  let shown = "";
  /** Make rows and columns anew only where their number or names changed. */
  function build(keys, layers) {
    const all = layers.flatMap((heads, layer) => heads.map((_, number) => `${layer} ${number}`));
    if (shown === all.length + keys.join("\n")) return;
    shown = all.length + keys.join("\n");
    const button = (name) => {
      const [layer, number] = name.split(" ").map((digit) => Number(digit) + 1);
      const label = `Layer ${layer}, head ${number}`;
      return takesKeys(element("button", { type: "button", "aria-label": label, "data-head": name }, `${layer}.${number}`));
    };
    head.replaceChildren(
      element(
        "tr",
        {},
        element("th", { scope: "col" }, "looks at"),
        ...all.map((name) => element("th", { scope: "col" }, button(name))),
      ),
    );
    body.replaceChildren(
      ...keys.map((key) =>
        element("tr", {}, element("th", { scope: "row" }, key), ...all.map(() => element("td", {}))),
      ),
    );
  }
  return {
    node,
    draw({ keys, layers, chosen, text }) {
      build(keys, layers);
      caption.textContent = text;
      const all = layers.flat();
      [...body.rows].forEach((row, key) =>
        all.forEach((weights, at) => {
          const cell = row.cells[at + 1];
          const weight = weights[key];
          cell.textContent = weight.toFixed(2).replace(/^0/, "");
          cell.dataset.weight = weight;
          cell.style.setProperty("--share", weight);
          cell.classList.toggle("attnlab-on-dark", weight >= LIGHT_INK_FROM);
        }),
      );
      for (const button of head.querySelectorAll("button"))
        button.setAttribute("aria-pressed", String(button.dataset.head === chosen));
    },
  };
}

/** The mean of some rows of weights. */
const meanOf = (rows) => Array.from(rows[0], (_, key) => rows.reduce((sum, row) => sum + row[key], 0) / rows.length);

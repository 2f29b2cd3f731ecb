// Head split explorer: every number on its way through view, transpose, attention and back, and its place in memory.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const CELL = { least: 24, most: 48, withNumber: 34, withTwoDigits: 44 }; // pixels of a number
const GAP = { narrow: 5, wide: 14, down: 12 }; // pixels between two heads
const TITLE = 22; // pixels of a line of titles
const NAMES = { short: 20, long: 62 }; // pixels of a row's name
const ATTENTION = 3; // the step from which on the numbers are outputs
const STEPS = ["x", "view", "transpose", "attention", "transpose back", "merge"];
const FOLLOWED = ["queries", "keys", "values"];

const short = (value, digits = 2) => String(Number(value.toFixed(digits)) || 0).replace("-", "−");
const tuple = (parts) => `(${parts.join(", ")})`;

/** Axes, shape and strides of the tensor at a step, and whether attention has written it head by head. */
function walkAt({ step, bug, T, H, D }) {
  const width = H * D;
  const whole = (strides) => ({ axes: ["T", "d_model"], shape: [T, width], strides });
  if (step === 0) return whole([width, 1]);
  if (step === 5) return whole(!bug && D === 1 ? [1, T] : [width, 1]); // rows of single numbers need no copy
  const inHeads = (strides) => ({ axes: ["H", "T", "D"], shape: [H, T, D], strides });
  const inTokens = (strides) => ({ axes: ["T", "H", "D"], shape: [T, H, D], strides });
  if (bug || step === ATTENTION) return inHeads([T * D, D, 1]);
  return { 1: inTokens([width, D, 1]), 2: inHeads([D, width, 1]), 4: inTokens([D, T * D, 1]) }[step];
}

/** The tensor at a step: which number stands at each index, at which address, and which lies where in memory. */
function tensorAt(setting) {
  const { step, bug, T, H, D } = setting;
  const walk = walkAt(setting);
  const held = (h, t, k) => (bug ? (h * T + t) * D + k : t * H * D + h * D + k);
  const split = upTo(H).map((h) => upTo(T).map((t) => upTo(D).map((k) => held(h, t, k))));
  const byHead = !bug && (step === 3 || step === 4 || (step === 5 && D === 1));
  const memory = byHead ? split.flat(2) : upTo(T * H * D);
  const extend = (all, count) => all.flatMap((index) => upTo(count).map((i) => [...index, i]));
  const cells = walk.shape.reduce(extend, [[]]).map((index) => {
    const address = index.reduce((sum, i, axis) => sum + i * walk.strides[axis], 0);
    return { index, address, id: memory[address] };
  });
  return { ...walk, split, memory, cells };
}

/** Attention in each head: weights (H, T, T), and the output that takes the place of each number. */
function attend({ split, queries, keys, values }) {
  const outputs = [];
  const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
  const weights = split.map((rows) =>
    rows.map((own) => {
      const dots = rows.map((other) => total(own.map((id, k) => queries[id] * keys[other[k]])));
      const parts = dots.map((dot) => Math.exp((dot - Math.max(...dots)) / Math.sqrt(own.length)));
      const shares = parts.map((part) => part / total(parts));
      own.forEach((id, k) => (outputs[id] = total(shares.map((share, s) => share * values[rows[s][k]]))));
      return shares;
    }),
  );
  return { weights, outputs };
}

/** Where each number stands, in pixels, with the names of rows, columns and heads. */
function plan({ room, T, H, D, axes, cells, rowName, letters }) {
  const width = H * D;
  const gap = room < 420 ? GAP.narrow : GAP.wide;
  const besides = (H - 1) * gap;
  const isLong = room - NAMES.long - besides >= width * CELL.withTwoDigits;
  const head = isLong ? NAMES.long : NAMES.short;
  const size = clamp(Math.floor((room - head - besides) / width), CELL.least, CELL.most);
  const block = head + D * size;
  const across = clamp(Math.floor((room + gap) / (block + gap)), 1, H < 4 ? 1 : Math.ceil(Math.sqrt(H)));
  const down = TITLE + T * size;
  const corner = (h) => [(h % across) * (block + gap), Math.floor(h / across) * (down + GAP.down)];
  const spots = new Map();
  const notes = [];
  const note = (kind, text, x, y) => notes.push({ kind, text, x, y });
  const nameRows = (x, y) =>
    upTo(T).forEach((t) => note("row", isLong ? rowName(t) : letters(t), x, y + TITLE + (t + 0.5) * size));
  const title = (h, x, y) => note("head", D * size < 52 ? h + 1 : `head ${h + 1}`, x + (D * size) / 2, y + TITLE / 2);
  const isBlocks = axes[0] === "H";
  const isGroups = axes[1] === "H";
  for (const { index, id } of cells) {
    const [h, t, k] = isBlocks ? index : isGroups ? [index[1], index[0], index[2]] : [0, index[0], index[1]];
    const [left, top] = isBlocks ? corner(h) : [isGroups ? h * (D * size + gap) : 0, 0];
    spots.set(id, [left + head + k * size, top + TITLE + t * size]);
  }
  if (isBlocks) {
    upTo(H).forEach((h) => {
      const [x, y] = corner(h);
      nameRows(x, y);
      title(h, x + head, y);
    });
  } else {
    nameRows(0, 0);
    if (isGroups) upTo(H).forEach((h) => title(h, head + h * (D * size + gap), 0));
    else upTo(width).forEach((c) => note("column", c, head + (c + 0.5) * size, TITLE / 2));
  }
  const lines = Math.ceil(H / across);
  return {
    spots,
    notes,
    size,
    width: Math.max(head + width * size + besides, across * (block + gap) - gap),
    height: lines * down + (lines - 1) * GAP.down, // of the highest step, so that nothing below ever moves
  };
}

/** The tensor as a list box: one focus, the arrow keys choose the neighbour on the page. */
function tensorBox({ here, count, chosen, choose }) {
  const options = upTo(count).map((id) => {
    const node = element("div", { class: "attnlab-number", role: "option", id: here.nextId(), "data-id": id });
    return fill(node, {}, [
      element("b"),
      element("i", { "aria-hidden": "true" }),
      element("span", { class: "attnlab-spoken" }),
    ]);
  });
  const notes = element("div", { "aria-hidden": "true" });
  const box = takesKeys(
    element("div", { class: "attnlab-tensor", role: "listbox", tabindex: 0, "aria-label": "Tensor" }, ...options),
  );
  box.append(notes);
  let spots = new Map();
  const neighbour = (dx, dy) => {
    const [x, y] = spots.get(chosen());
    const ahead = [...spots]
      .filter(([, [left, top]]) => (dx ? top === y && (left - x) * dx > 0 : left === x && (top - y) * dy > 0))
      .sort(([, a], [, b]) => (a[0] - b[0]) * dx + (a[1] - b[1]) * dy);
    return ahead.length ? ahead[0][0] : chosen();
  };
  here.life.listen(box, "click", (event) => {
    const option = event.target.closest("[data-id]");
    if (option) choose(Number(option.dataset.id));
  });
  here.life.listen(box, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const ends = { Home: 0, End: -1 };
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!(event.key in { ...ends, ...ways })) return;
    event.preventDefault();
    choose(ways[event.key] ? neighbour(...ways[event.key]) : [...spots.keys()].at(ends[event.key]));
  });

  function paint({ planned, tensor, numbers, label, spoken, isWrong, sameHead }) {
    spots = planned.spots;
    box.style.width = `${planned.width}px`;
    box.style.height = `${planned.height}px`;
    box.style.setProperty("--size", `${planned.size}px`);
    box.classList.toggle("attnlab-no-numbers", planned.size < CELL.withNumber);
    for (const { index, address, id } of tensor.cells) {
      const node = options[id];
      const [x, y] = spots.get(id);
      node.style.transform = `translate(${x}px, ${y}px)`;
      node.firstChild.textContent = label(id);
      node.children[1].textContent = short(numbers[id], planned.size < CELL.withTwoDigits ? 1 : 2);
      Object.assign(node.dataset, { index, address, number: numbers[id] });
      node.setAttribute("aria-selected", String(id === chosen()));
      node.lastChild.textContent = spoken(id);
      node.classList.toggle("attnlab-misplaced", isWrong(id));
      node.classList.toggle("attnlab-same-head", sameHead(id));
    }
    box.setAttribute("aria-activedescendant", options[chosen()].id);
    box.setAttribute("aria-owns", tensor.cells.map(({ id }) => options[id].id).join(" ")); // read in the tensor's order
    notes.replaceChildren(
      ...planned.notes.map(({ kind, text, x, y }) => {
        const node = element("span", { class: `attnlab-name attnlab-name-${kind}` }, String(text));
        node.style.transform = `translate(${x}px, ${y}px)`;
        return node;
      }),
    );
  }
  return { box, paint };
}

/** The line of code of a step, and what it does. */
function wordsFor({ step, bug, H, T, D, letter }) {
  const leftOut = "# left out: transpose(0, 1)";
  const nothing = "Nothing is copied: two strides change places.";
  const isCopied = Math.min(H, T, D) > 1;
  const merging = isCopied ? "The numbers of a token lie apart, so they are copied." : "Here nothing need be copied.";
  const right = [
    [letter, "Each row is a token. In memory the rows follow one another."],
    [`groups = ${letter}.view(T, H, D)`, "Each row is cut into groups of columns. Memory stays as it is."],
    ["heads = groups.transpose(0, 1)", `The head axis comes first. ${nothing}`],
    [
      "out = attention(Q, K, V)",
      "The outputs are new numbers in new memory, head by head. Each keeps the name of its place.",
    ],
    ["groups = out.transpose(0, 1)", `Tokens come first again. ${nothing}`],
    ["merged = groups.reshape(T, d_model)", `Groups side by side, one row a token. ${merging}`],
  ];
  const wrong = [
    right[0],
    [`heads = ${letter}.view(H, T, D)`, "The shape that attention wants, and no error. But memory is cut in order."],
    [leftOut, "No axis has moved, so the rows of a head are no longer tokens."],
    [right[3][0], "Each head mixes the pieces that it has. The outputs are new numbers in new memory."],
    [leftOut, "The shape is still (H, T, D)."],
    ["merged = out.reshape(T, d_model)", "Every place is back where it was, and the shape fits. Nothing looks wrong."],
  ];
  return (bug ? wrong : right)[step];
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Head split explorer", kind: "split" });
  const { life } = here;
  const tokens = model.get("tokens");
  const T = tokens.length;
  const width = model.get("width");
  const all = floats(model.get("tensors"));
  const [queries, keys, values] = upTo(3).map((i) => all.subarray(i * T * width, (i + 1) * T * width));
  const letters = (t) => "abcdef"[t];
  const label = (id) => `${letters(Math.floor(id / width))}${id % width}`;
  const tokenOf = (id) => Math.floor(id / width);
  const span = (ids) => (ids.length > 1 ? `${label(ids[0])}–${label(ids.at(-1))}` : label(ids[0]));
  let setting, tensor, weights, numbers, at;

  function compute() {
    const H = model.get("heads");
    setting = { step: model.get("step"), bug: model.get("bug"), T, H, D: width / H };
    tensor = tensorAt(setting);
    const attended = attend({ split: tensor.split, queries, keys, values });
    weights = attended.weights;
    const followed = [queries, keys, values][FOLLOWED.indexOf(model.get("followed"))];
    numbers = setting.step < ATTENTION ? followed : attended.outputs;
    at = locate(model.get("chosen"));
  }
  /** The head, and the row and the column in it, that a number has or will have. */
  function locate(id) {
    const { bug, D } = setting;
    if (bug) return { h: Math.floor(id / (T * D)), t: Math.floor(id / D) % T, k: id % D };
    return { h: Math.floor((id % width) / D), t: tokenOf(id), k: id % D };
  }

  const divisors = upTo(width + 1).filter((h) => h && width % h === 0);
  const heads = choice({
    stage: here,
    label: "Heads H",
    options: divisors.map((h) => [h, String(h)]),
    onChange: (value) => here.set("heads", Number(value)),
  });
  const followed = choice({
    stage: here,
    label: "Follow",
    options: FOLLOWED.map((name) => [name, `${name} ${name[0].toUpperCase()}`]),
    onChange: (value) => here.set("followed", value),
  });
  const bug = checkbox({ stage: here, label: "The bug: no transpose", onChange: (on) => here.set("bug", on) });
  for (const [trait, { input }] of Object.entries({ heads, followed, bug })) input.dataset.trait = trait;
  const go = (step) => here.set("step", clamp(step, 0, STEPS.length - 1));
  const steps = STEPS.map((name, step) =>
    button({ stage: here, label: `${step + 1} ${name}`, text: `${step + 1} ${name}`, onPress: () => go(step) }),
  );
  steps.forEach((node, step) => (node.dataset.step = step));
  const back = button({ stage: here, label: "Step back", text: "◀", onPress: () => go(setting.step - 1) });
  const next = button({ stage: here, label: "Next step", text: "▶", onPress: () => go(setting.step + 1) });
  const code = element("code", { class: "attnlab-split-code" });
  const form = element("p", { class: "attnlab-split-form" });
  const fact = () => element("p", { class: "attnlab-fact" });
  const note = fact();
  const choose = (id) => id !== model.get("chosen") && here.set("chosen", id);
  const box = tensorBox({ here, count: T * width, chosen: () => model.get("chosen"), choose });
  const frame = element("div", { class: "attnlab-tensor-frame" }, box.box);
  const legend = fact();
  legend.textContent =
    "Press a number, or use the arrow keys. b2 is column 2 of token b. Underlined: the head of the chosen number.";
  const chosenFact = element("p", { class: "attnlab-split-chosen" });
  const slots = upTo(T * width).map((address) => element("li", {}, element("small", {}, String(address)), element("b")));
  const memory = element("ol", { class: "attnlab-memory", "aria-label": "Memory, by address" }, ...slots);
  const stridesFact = fact();
  const holds = element("ul", { class: "attnlab-holds", "aria-label": "What each head gets" });
  const list = element("ol", { class: "attnlab-bars", "aria-label": "Weights of the chosen row" });
  const mixed = fact();
  const heading = (text) => element("p", { class: "attnlab-split-heading" }, text);
  const looks = element("div", {}, heading(""), list, mixed);

  const table = valueTable({
    stage: here,
    summary: "Numbers and weights as a table",
    content: () => ({
      caption: `${stepText()}: ${formText()}.`,
      columns: ["Number", "Token", "Column", "Head", "Index", "Address", "Value", "Weights of its row in its head"],
      rows: tensor.cells.map(({ index, address, id }) => {
        const { h, t } = locate(id);
        const row = weights[h][t].map((weight) => weight.toFixed(4)).join(" ");
        const value = numbers[id].toFixed(4).replace("-", "−");
        return [label(id), tokens[tokenOf(id)], id % width, h + 1, `[${index.join(", ")}]`, address, value, row];
      }),
    }),
  });
  here.add(
    element("div", { class: "attnlab-controls" }, heads.node, followed.node, bug.node),
    element(
      "div",
      { class: "attnlab-steps", role: "group", "aria-label": "Step" },
      back,
      element("div", {}, ...steps),
      next,
    ),
    element("div", { class: "attnlab-split-now" }, code, form, note),
    element(
      "div",
      { class: "attnlab-split-columns" },
      element("div", {}, legend, frame),
      element(
        "div",
        { class: "attnlab-split-side" },
        chosenFact,
        element("div", {}, heading("Memory"), memory, stridesFact),
        element("div", {}, heading("What each head gets"), holds),
        looks,
      ),
    ),
    table.node,
  );

  const leftOut = (step) => setting.bug && (step === 2 || step === 4);
  const stepText = () =>
    `Step ${setting.step + 1} of ${STEPS.length}, ${STEPS[setting.step]}${leftOut(setting.step) ? ", left out" : ""}`;
  const formText = () => `shape ${tuple(tensor.axes)} = ${tuple(tensor.shape)}, strides ${tuple(tensor.strides)}`;
  const spoken = (id) => `, ${tokens[tokenOf(id)]}, column ${id % width}: ${short(numbers[id])}`;

  function chosenText() {
    const id = model.get("chosen");
    const { index, address } = tensor.cells.find((cell) => cell.id === id);
    const what = setting.step < ATTENTION ? "" : "Output in the place of ";
    const sum = index.map((i, axis) => `${i} × ${tensor.strides[axis]}`).join(" + ");
    return `${what}${label(id)} (${tokens[tokenOf(id)]}, column ${id % width}) is ${short(numbers[id])}. Index [${index.join(", ")}]: ${sum} = address ${address}.`;
  }
  function holdsText(rows, h) {
    const held = upTo(T).map((t) => rows.flat().filter((id) => tokenOf(id) === t));
    const missing = enumerated(held.flatMap((ids, t) => (ids.length ? [] : [`${letters(t)} ${tokens[t]}`])));
    const parts = held.filter((ids) => ids.length).map(span).join(", ");
    return `Head ${h + 1}: ${parts}${missing && `, and nothing of ${missing}`}`;
  }
  function paintLooks() {
    looks.hidden = setting.step < ATTENTION;
    if (looks.hidden) return;
    const rows = tensor.split[at.h];
    const shares = weights[at.h][at.t];
    const rowName = (t) => (setting.bug ? span(rows[t]) : `${letters(t)} ${tokens[t]}`);
    looks.firstChild.textContent = `Head ${at.h + 1}, row ${rowName(at.t)}: where it looks`;
    list.replaceChildren(
      ...shares.map((share, t) => {
        const line = weightBar(rowName(t), share, t === at.t);
        line.dataset.weight = share;
        return line;
      }),
    );
    const terms = shares.map((share, t) => `${share.toFixed(2)} × ${short(values[rows[t][at.k]])}`);
    mixed.textContent = `Its output here: ${terms.join(" + ")} = ${short(numbers[model.get("chosen")])}.`;
  }

  function draw() {
    const { step, H, D } = setting;
    const id = model.get("chosen");
    heads.set(H);
    followed.set(model.get("followed"));
    bug.set(setting.bug);
    const [line, text] = wordsFor({ ...setting, letter: model.get("followed")[0].toUpperCase() });
    code.textContent = line;
    form.textContent = formText();
    note.textContent = text;
    steps.forEach((node, at) => {
      node.classList.toggle("attnlab-left-out", leftOut(at));
      if (at === step) node.setAttribute("aria-current", "step");
      else node.removeAttribute("aria-current");
    });
    back.setAttribute("aria-disabled", step === 0); // not `disabled`, which would take the focus away
    next.setAttribute("aria-disabled", step === STEPS.length - 1);
    const inRows = setting.bug && tensor.axes[0] === "H";
    const planned = plan({
      room: frame.clientWidth - 8,
      ...setting,
      ...tensor,
      letters: inRows ? String : letters,
      rowName: (t) => (inRows ? `row ${t}` : `${letters(t)} ${tokens[t]}`),
    });
    const own = new Set(tensor.split[at.h].flat());
    const isWrong = (one) => inRows && tokenOf(one) !== locate(one).t;
    box.paint({ planned, tensor, numbers, label, spoken, isWrong, sameHead: (one) => own.has(one) });
    slots.forEach((node, address) => {
      const held = tensor.memory[address];
      node.lastChild.textContent = label(held);
      node.dataset.holds = held;
      node.classList.toggle("attnlab-same-head", own.has(held));
      node.classList.toggle("attnlab-chosen", held === id);
    });
    chosenFact.textContent = chosenText();
    stridesFact.textContent = `Neighbours along ${tensor.axes.map((axis, i) => `${axis} lie ${tensor.strides[i]}`).join(", along ")} apart.`;
    holds.replaceChildren(...tensor.split.map((rows, h) => element("li", {}, holdsText(rows, h))));
    paintLooks();
    const { shape, strides } = tensor;
    Object.assign(here.root.dataset, { step, followed: model.get("followed"), shape, strides });
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => {
    const lost = setting.bug ? ` ${tensor.split.map(holdsText).join(". ")}.` : "";
    return `${stepText()}: ${formText()}.${lost} ${chosenText()}`;
  };
  life.watch(model, ["heads", "step", "followed", "bug", "chosen"], () => {
    compute();
    redraw();
    here.announce(inSentences);
  });
  life.onResize(frame, redraw);
  compute();
  draw();
  return here.remove;
}

export default { render };

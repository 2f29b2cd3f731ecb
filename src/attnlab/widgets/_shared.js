// The part that all widgets share. It stands before each widget's own module, in one file, so neither imports anything.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const HANDLE = 20; // pixels, the handle of a slider as the style sheet draws it
const ANNOUNCE_AFTER = 450; // milliseconds of rest, so that a drag is announced once and not at every step
const LIGHT_INK_FROM = 0.88; // from this weight on, light ink reads better in a cell than dark ink, in both themes
let viewsMade = 0; // makes ids unique where a page shows several views

/** Little-endian float32 bytes, as Jupyter or the website hands them over, as numbers. */
function floats(bytes) {
  const view =
    bytes instanceof DataView ? bytes : new DataView(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength);
  return Float64Array.from({ length: view.byteLength / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);

/** JupyterLab takes bare arrow keys for itself unless the focused element says that it needs them. */
function takesKeys(node) {
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  return node;
}

/** Everything that a view has to undo when it goes: listeners, observers, timers and frames. */
function lifetime() {
  const controller = new AbortController();
  const endings = [];
  return {
    listen(target, type, handler, options = {}) {
      target.addEventListener(type, handler, { ...options, signal: controller.signal });
    },
    watch(model, names, handler) {
      for (const name of names) {
        model.on(`change:${name}`, handler);
        endings.push(() => model.off(`change:${name}`, handler));
      }
    },
    onResize(node, handler) {
      const observer = new ResizeObserver(handler);
      observer.observe(node);
      endings.push(() => observer.disconnect());
    },
    /** A function that asks for one drawing in the next frame, however often it is called until then. */
    onePerFrame(draw) {
      let waiting = 0;
      endings.push(() => cancelAnimationFrame(waiting));
      return () => {
        waiting ||= requestAnimationFrame(() => {
          waiting = 0;
          draw();
        });
      };
    },
    /** A function that runs the last call once there was rest. */
    afterRest(handler) {
      let timer = 0;
      endings.push(() => clearTimeout(timer));
      return (...values) => {
        clearTimeout(timer);
        timer = setTimeout(() => handler(...values), ANNOUNCE_AFTER);
      };
    },
    end() {
      controller.abort();
      for (const ending of endings.splice(0)) ending();
    },
  };
}

/** The frame of a widget: a named group, a hidden line for screen readers, and settings that go to the model. */
function stage({ model, el, name, kind }) {
  const id = `attnlab-${kind}-${++viewsMade}`;
  const life = lifetime();
  const spoken = element("p", { class: "attnlab-spoken", "aria-live": "polite", "data-spoken": "" });
  const root = element("div", { class: `attnlab-widget attnlab-${kind}`, role: "group", "aria-label": name }, spoken);
  el.append(root);
  // What a control understands must not also move a cell of the notebook around it.
  const own = /^(Arrow|Home$|End$|Page| $)/;
  let controls = 0;
  life.listen(root, "keydown", (event) => own.test(event.key) && event.stopPropagation());
  return {
    id,
    nextId: () => `${id}-${++controls}`,
    life,
    root,
    /** Say what `text()` gives once the reader has come to rest. */
    announce: life.afterRest((text) => (spoken.textContent = text())),
    set(trait, value) {
      model.set(trait, value);
      model.save_changes();
    },
    add: (...nodes) => spoken.before(...nodes),
    remove() {
      life.end();
      root.remove();
    },
  };
}

/** Nodes of a label: what follows an underscore stands lower, as in d_k. */
const labelled = (text) => text.split(/_(\w)/).map((part, i) => (i % 2 ? element("sub", {}, part) : part));

/** A labelled slider. `show` turns its value into the text beside the label. */
function slider({ stage, label, min, max, step = 1, show = String, onInput }) {
  const id = stage.nextId();
  const input = takesKeys(element("input", { type: "range", id, min, max, step }));
  const output = element("output", { for: id });
  stage.life.listen(input, "input", () => onInput(Number(input.value)));
  return {
    node: element(
      "div",
      { class: "attnlab-field" },
      element("label", { for: id }, ...labelled(label)),
      output,
      input,
    ),
    input,
    set(value) {
      input.value = value;
      input.style.setProperty("--done", (value - min) / (max - min || 1));
      output.textContent = show(value);
      input.setAttribute("aria-valuetext", show(value));
    },
  };
}

function checkbox({ stage, label, onChange }) {
  const input = takesKeys(element("input", { type: "checkbox" }));
  stage.life.listen(input, "change", () => onChange(input.checked));
  return {
    node: element("label", { class: "attnlab-check" }, input, element("span", {}, ...labelled(label))),
    input,
    set: (on) => (input.checked = on),
  };
}

/** A labelled list to choose from; `options` are pairs of a value and its text. */
function choice({ stage, label, options, onChange }) {
  const id = stage.nextId();
  const input = takesKeys(
    element("select", { id }, ...options.map(([value, text]) => element("option", { value }, text))),
  );
  stage.life.listen(input, "change", () => onChange(input.value));
  return {
    node: element("div", { class: "attnlab-field attnlab-choice" }, element("label", { for: id }, label), input),
    input,
    set: (value) => (input.value = value),
  };
}

function button({ stage, label, text, onPress }) {
  const node = takesKeys(element("button", { type: "button", "aria-label": label }, text));
  stage.life.listen(node, "click", onPress);
  return node;
}

/** Numbers as a table that unfolds. `content` gives {caption, columns, rows}; it is asked only while unfolded. */
function valueTable({ stage, summary, content }) {
  const box = takesKeys(
    element("div", { class: "attnlab-scroll", tabindex: 0, role: "region", "aria-label": summary }),
  );
  const node = element("details", { class: "attnlab-values" }, takesKeys(element("summary", {}, summary)), box);
  const refresh = () => {
    if (!node.open) return;
    const { caption, columns, rows } = content();
    box.replaceChildren(
      element(
        "table",
        {},
        element("caption", {}, caption),
        element("thead", {}, element("tr", {}, ...columns.map((text) => element("th", { scope: "col" }, text)))),
        element(
          "tbody",
          {},
          ...rows.map(([head, ...cells]) =>
            element("tr", {}, element("th", { scope: "row" }, head), ...cells.map((text) => element("td", {}, text))),
          ),
        ),
      ),
    );
  };
  stage.life.listen(node, "toggle", refresh);
  return { node, refresh };
}

/** A line of a list `attnlab-bars`: a name, a weight from 0 to 1 as a bar, a frame for an earlier one, digits. */
function weightBar(name, weight, marked, before) {
  const track = element("span", { class: "attnlab-track", "aria-hidden": "true" });
  for (const [kind, share] of Object.entries({ bar: weight, ghost: before })) {
    if (share === undefined) continue;
    const long = element("span", { class: `attnlab-${kind}` });
    long.style.width = `${100 * share}%`;
    track.append(long);
  }
  return element(
    "li",
    { class: marked ? "attnlab-marked" : "" },
    element("span", { class: "attnlab-bar-name" }, name),
    track,
    element("span", { class: "attnlab-bar-number" }, weight.toFixed(2)),
  );
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** The whole numbers from 0 to `count` − 1. */
const upTo = (count) => Array.from({ length: count }, (_, i) => i);

const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/** Things in a sentence: "1", "1 and 2", "1, 2 and 3". */
const enumerated = (things) =>
  things.length < 2 ? things.join("") : `${things.slice(0, -1).join(", ")} and ${things.at(-1)}`;

/** A number with so many decimals, a true minus sign and no minus zero. */
const fixed = (value, digits = 2) => (Number(value.toFixed(digits)) || 0).toFixed(digits).replace("-", "−");

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const raised = (exponent) => [...String(exponent)].map((digit) => RAISED[digit]).join("");

/** A number for the eye: plain between a thousandth and a million, else with a power of ten. */
function readable(value, digits = 2) {
  if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6)) {
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  }
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  return `${mantissa.replace("-", "−")} × 10${raised(Number(exponent))}`;
}

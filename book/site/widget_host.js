// Runs anywidget modules on a page without a kernel: from the state in the page, with files of this site alone.
// The Sphinx extension of the same name prepares the page: a place for each view, the state as JSON, code in files.
// No file is a module, since browsers load no modules into a page that was opened from a file.
"use strict";
{
const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
const HOME = document.currentScript.src; // the other files lie beside this one
const PLACE = ".attnlab-host[data-model]";
const FAILED = "This interactive figure could not start.";
const NEAR = "400px 0px"; // start widgets this far below the screen

/** The part of a Jupyter widget's model that modules use. What is saved stays in the page. */
class Model {
  #state;
  #handlers = new Map();

  constructor(state) {
    this.#state = state;
  }

  get(name) {
    return this.#state[name];
  }

  set(name, value) {
    const changes = typeof name === "string" ? { [name]: value } : name;
    for (const [key, next] of Object.entries(changes)) {
      if (Object.is(this.#state[key], next)) continue;
      this.#state[key] = next;
      this.#emit(`change:${key}`, next);
      this.#emit("change", this);
    }
  }

  save_changes() {}

  send() {}

  on(event, handler) {
    if (!this.#handlers.has(event)) this.#handlers.set(event, new Set());
    this.#handlers.get(event).add(handler);
  }

  off(event, handler) {
    if (event == null) this.#handlers.clear();
    else if (handler == null) this.#handlers.delete(event);
    else this.#handlers.get(event)?.delete(handler);
  }

  /** How many handlers wait for a change: none is left when every view is gone. */
  get listeners() {
    return [...this.#handlers.values()].reduce((total, handlers) => total + handlers.size, 0);
  }

  #emit(event, value) {
    for (const handler of [...(this.#handlers.get(event) ?? [])]) handler(this, value);
  }
}

/** Base64 as a DataView, which is what Jupyter hands to modules. */
function bytes(text) {
  return new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

function modelFrom({ state, buffers = [] }) {
  const own = { ...state };
  for (const { path, data } of buffers) {
    const holder = path.slice(0, -1).reduce((part, key) => part[key], own);
    holder[path.at(-1)] = bytes(data);
  }
  return new Model(own);
}

const isLink = ({ model_name: name }) => name === "LinkModel" || name === "DirectionalLinkModel";

/** Keep two traits equal, as jslink does, or one after the other, as jsdlink does. */
function join({ model_name: name, state }, models) {
  const end = ([reference, trait]) => [models.get(String(reference).replace("IPY_MODEL_", "")), trait];
  const [source, from] = end(state.source);
  const [target, to] = end(state.target);
  if (!source || !target) return;
  target.set(to, source.get(from));
  source.on(`change:${from}`, () => target.set(to, source.get(from)));
  if (name === "LinkModel") target.on(`change:${to}`, () => source.set(from, target.get(to)));
}

const styles = new Map();

/** Load a style sheet once, and wait for it, so that a widget never shows without. */
function loadStyle(name) {
  if (!styles.has(name)) {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL(name, HOME);
    const settled = new Promise((resolve) => {
      link.addEventListener("load", resolve, { once: true });
      link.addEventListener("error", resolve, { once: true });
    });
    document.head.append(link);
    styles.set(name, settled);
  }
  return styles.get(name);
}

const modules = new Map();

/** Load a widget's code once. It leaves what its module exported by default under the name of its file. */
function loadModule(name) {
  if (!modules.has(name)) {
    const script = document.createElement("script");
    script.src = new URL(name, HOME);
    const loaded = new Promise((resolve, reject) => {
      script.addEventListener("load", () => resolve(globalThis.attnlabModules[name]), { once: true });
      script.addEventListener("error", () => reject(new Error(`${name} did not load`)), { once: true });
    });
    document.head.append(script);
    modules.set(name, loaded);
  }
  return modules.get(name);
}

const running = new Map(); // place → what ends the widget in it

async function start(place, model) {
  const controller = new AbortController();
  const el = document.createElement("div");
  // The first sentence says that scripts are needed, the rest what to look at instead.
  const instead = place.textContent.replace(/^[^.]*\./, "");
  try {
    const [module] = await Promise.all([
      loadModule(model.get("_esm")),
      model.get("_css") && loadStyle(model.get("_css")),
    ]);
    const widget = typeof module === "function" ? await module() : module;
    await widget.initialize?.({ model, signal: controller.signal });
    place.replaceChildren(el); // before it renders: a widget measures the width that it has
    const end = await widget.render?.({ model, el, signal: controller.signal });
    running.set(place, () => {
      controller.abort();
      end?.();
    });
    place.dataset.state = "ready";
  } catch (error) {
    controller.abort();
    const note = document.createElement("p");
    note.textContent = FAILED + instead;
    place.replaceChildren(note);
    place.dataset.state = "failed";
    console.error(error);
  }
}

/** Take the widget in a place away, with everything that it listens to. */
function dispose(place) {
  running.get(place)?.();
  running.delete(place);
  place.replaceChildren();
  place.dataset.state = "disposed";
}

/** Models by id. */
const models = new Map();

/** Start each view when it comes near the screen, and the rest when the page is idle or goes to print. */
function startWhenNear(waiting) {
  const begin = (place) => {
    const model = waiting.get(place);
    waiting.delete(place);
    near.unobserve(place);
    return model && start(place, model);
  };
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => begin(entry.target)),
    { rootMargin: NEAR },
  );
  for (const place of waiting.keys()) near.observe(place);
  addEventListener("beforeprint", () => [...waiting.keys()].forEach(begin));
  const whenIdle = window.requestIdleCallback ?? ((task) => setTimeout(task, 200));
  const next = () =>
    whenIdle(async () => {
      const [place] = waiting.keys();
      if (!place) return;
      await begin(place);
      next();
    });
  if (document.readyState === "complete") next();
  else addEventListener("load", next, { once: true });
}

/** Read the page's state, make the models, join those that are linked, and start the views. */
function main() {
  const script = document.querySelector(STATE);
  if (!script) return;
  const state = Object.entries(JSON.parse(script.textContent).state);
  for (const [id, saved] of state) if (!isLink(saved)) models.set(id, modelFrom(saved));
  for (const [, saved] of state) if (isLink(saved)) join(saved, models);
  const places = [...document.querySelectorAll(PLACE)];
  startWhenNear(new Map(places.map((place) => [place, models.get(place.dataset.model)])));
}

main(); // a deferred script runs when the page is parsed

// For those who look at a page from its console.
globalThis.attnlabHost = { Model, models, dispose };
}

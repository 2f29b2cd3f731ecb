// The translator explorer: a trained translator runs in the page, and shows where it looks for every word.

const PACE = 140; // milliseconds from word to word

function percent(probability) {
  if (probability > 0.9995) return ">\u00a099.9\u00a0%";
  return probability < 0.0005 ? "<\u00a00.1\u00a0%" : `${(100 * probability).toFixed(1)}\u00a0%`;
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Translator explorer", kind: "translator" });
  const { life } = here;
  const files = model.get("files");
  const entries = files.length ? files : [{ name: model.get("language"), label: model.get("language") }];
  const phrases = model.get("held_out");
  const translators = new Map(); // by name: {translator, known: what was counted, by part}
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const view = { entry: entries[0], part: "", look: "cross", head: "", beams: 4, word: 0, source: 0, revealed: 0 };
  let current = null; // of `translators`
  let result = null;
  let problem = "";
  let gone = false;
  let stopWaiting = () => {};
  let pace = 0;

  const work = inSlices((error) => {
    problem = "Something went wrong with this phrase. Try another one.";
    console.warn(error); // for those who look for the cause
    redraw();
  });
  const partsHere = () => (current ? partsOf(current.translator) : []);
  const partNow = () => partsHere().find(({ name }) => name === view.part);
  const phrase = () => model.get("text").trim();

  /** Read the weights of the chosen language, unless they are here. */
  async function load() {
    const entry = view.entry;
    stopWaiting();
    problem = "";
    view.state = "loading";
    redraw();
    try {
      const bytes = await (entry.address
        ? loadScript(entry.name, entry.address)
        : askKernel(model, (stop) => (stopWaiting = stop)));
      if (gone) return;
      translators.set(entry.name, { translator: readTranslator(bytes), known: new Map() });
    } catch (error) {
      if (gone) return;
      problem =
        error instanceof TranslatorFileError ? error.message : "The translator could not be loaded. Check the connection, and try again.";
    }
    if (view.entry === entry) open(entry.name);
  }

  function open(name) {
    work.end();
    view.entry = entries.find((entry) => entry.name === name);
    current = translators.get(name) ?? null;
    result = null;
    if (current) {
      problem = "";
      view.state = "ready";
      nameParts();
      translate();
    } else view.state = problem ? "failed" : "waiting";
    redraw();
  }

  /** Fill the lists whose content depends on the translator. */
  function nameParts() {
    const { config } = current.translator;
    const groups = new Map();
    for (const { name, label, group } of partsHere()) groups.set(group, [...(groups.get(group) ?? []), [name, label]]);
    const option = ([value, text]) => element("option", { value }, text);
    ui.part.input.replaceChildren(
      option(["", "nothing"]),
      ...[...groups].map(([label, options]) => element("optgroup", { label }, ...options.map(option))),
    );
    if (!partNow()) view.part = "";
    const layers = Math.max(config.num_encoder_layers, config.num_decoder_layers);
    ui.head.input.replaceChildren(
      ...upTo(layers).flatMap((layer) => [
        option([`${layer}`, `Layer ${layer + 1}, mean of its heads`]),
        ...upTo(config.num_heads).map((head) => option([`${layer} ${head}`, `Layer ${layer + 1}, head ${head + 1}`])),
      ]),
    );
    view.head = String(layers - 1);
  }

  function translate() {
    work.end();
    result = null;
    problem = "";
    Object.assign(view, { word: 0, source: 0, revealed: 0 });
    if (!current) return redraw();
    const { translator, known } = current;
    const read = translator.tokenise(phrase());
    const { ready, notes } = notesOn(translator, phrase(), read);
    result = { ...read, notes, ready, steps: [] };
    redraw();
    if (!ready) return;
    reveal();
    let told = false;
    const show = () => {
      redraw();
      if (told || result?.text === undefined) return;
      told = true; // once: what is counted later would put the sentence off again and again
      here.announce(inSentences);
    };
    work.run(
      translation({
        model: translator,
        ids: read.ids,
        part: partNow(),
        beams: view.beams,
        phrases: view.entry.measured?.effects ? [] : phrases,
        known,
        result,
        show,
      }),
    );
    here.announce(inSentences);
  }

  /** Show one word after another, all at once for those who want no motion. */
  function reveal(from = 0) {
    clearTimeout(pace);
    view.revealed = still.matches ? Infinity : from;
    view.word = Math.max(0, from - 1);
    const next = () => {
      view.revealed += 1;
      view.word = view.revealed - 1;
      redraw();
      if (!result?.text || view.revealed < result.steps.length) pace = setTimeout(next, PACE);
      else view.revealed = Infinity;
    };
    if (view.revealed !== Infinity) pace = setTimeout(next, PACE);
    redraw();
  }

  const shownSteps = () => Math.min(result?.steps.length ?? 0, view.revealed);
  const word = () => clamp(view.word, 0, Math.max(0, shownSteps() - 1));
  const goTo = (place) => {
    clearTimeout(pace);
    view.revealed = Infinity;
    view.word = clamp(place, 0, Math.max(0, (result?.steps.length ?? 1) - 1));
    here.announce(inSentences);
    redraw();
  };
  const goToQuery = (place) => {
    if (view.look !== "encoder") return goTo(place);
    view.source = clamp(place, 0, result.tokens.length - 1);
    here.announce(inSentences);
    redraw();
  };
  const act = {
    type(text, chosen) {
      if (!chosen) ui.examples.set("");
      here.set("text", text);
    },
    open: (name) => ((problem = ""), stopWaiting(), open(name)),
    load,
    without: (name) => ((view.part = name), translate()),
    look: (look) => ((view.look = look), here.announce(inSentences), redraw()),
    head: (head) => ((view.head = head), here.announce(inSentences), redraw()),
    beams: (beams) => ((view.beams = beams), translateBeams()),
    step: (by) => goTo(word() + by),
    play: () => result?.steps.length && reveal(),
    word: goTo,
    query: (by) => result?.ready && goToQuery((view.look === "encoder" ? view.source : word()) + by),
    chooseQuery: goToQuery,
  };
  const ui = layOut({ here, entries, act });
  const table = valueTable({ stage: here, summary: "Weights and probabilities as a table", content: asTable });
  ui.body.append(table.node);

  /** Other beams of what is written already. Work that is not finished begins again. */
  function translateBeams() {
    redraw();
    if (!result?.beams) return translate();
    const { word: at, revealed } = view;
    translate();
    clearTimeout(pace);
    Object.assign(view, { word: at, revealed });
  }

  const pieces = () => result.tokens.map((token) => shownPiece(token));
  const written = () => result.steps.map(({ id }) => shownPiece(current.translator.targetWords[id]));

  /** Who looks at whom now: {keys, queries, query, layers: [layer][head] weights}. */
  function looking() {
    const step = result.steps[word()];
    if (view.look === "encoder") {
      const count = result.tokens.length;
      const row = (weights) => weights.subarray(view.source * count, (view.source + 1) * count);
      const layers = result.encoded.attention.map((heads) => heads.map(row));
      return { keys: pieces(), queries: pieces(), query: view.source, layers };
    }
    const queries = written().slice(0, shownSteps());
    if (view.look === "cross") return { keys: pieces(), queries, query: word(), layers: step.cross };
    return { keys: ["begin", ...queries.slice(0, word())], queries, query: word(), layers: step.self };
  }

  function chosenWeights({ layers }) {
    const [layer, head] = view.head.split(" ").map(Number);
    const heads = layers[Math.min(layer, layers.length - 1)];
    return head === undefined ? meanOf(heads) : heads[head];
  }

  const headInWords = () => ui.head.input.selectedOptions[0]?.textContent ?? "";

  function asTable() {
    if (!result?.steps.length) return { caption: "Nothing is translated yet.", columns: ["Word"], rows: [] };
    const { keys, layers } = looking();
    const names = layers.flatMap((heads, layer) => heads.map((_, head) => `${layer + 1}.${head + 1}`));
    const { top } = result.steps[word()];
    const next = namesOf(top.map(([id]) => current.translator.targetWords[id]));
    return {
      caption: `Weights of each head (layer.head) on each word, and behind them the likeliest next words.`,
      columns: ["Word", ...names],
      rows: [
        ...keys.map((key, at) => [key, ...layers.flat().map((weights) => weights[at].toFixed(4))]),
        ...top.map(([, probability], at) => [
          `next: ${next[at]}`,
          probability.toFixed(4),
          ...names.slice(1).map(() => ""),
        ]),
      ],
    };
  }

  function inSentences() {
    if (problem) return problem;
    if (!result?.ready) return result?.notes[0] ?? "";
    if (!result.text) return "Translating.";
    const [id, probability] = result.steps[word()].top[0];
    const place = looking();
    const weights = chosenWeights(place);
    const most = weights.indexOf(Math.max(...weights));
    const what = shownPiece(current.translator.targetWords[id]);
    return [
      ...result.notes,
      `${view.part ? `Without: ${partNow().label}. ` : ""}Translation: ${result.text}.`,
      `Word ${word() + 1} of ${result.steps.length}, ${what}, ${percent(probability)}.`,
      `${headInWords()}: most weight on ${place.keys[most]}, ${weights[most].toFixed(2)}.`,
    ].join(" ");
  }

  function effect() {
    const part = partNow();
    const { measured } = view.entry;
    const after = part && storedEffect(measured, part.name);
    if (after !== undefined) {
      const count = (share) => Math.round(share * measured.phrases);
      return effectInWords({ phrases: measured.phrases, before: count(measured.exact_match), after: count(after) });
    }
    const counts = part && current.known.get(part.name);
    if (counts) return effectInWords(counts);
    if (part && phrases.length) return `Counting on ${phrases.length} held-out phrases: ${result?.counted ?? 0} done.`;
    return "";
  }

  function drawStart() {
    const megabytes = view.entry.kilobytes ? ` (${view.entry.kilobytes} kB)` : "";
    const sentences = {
      waiting: `The translator’s weights${megabytes} are loaded when you ask for them, and stay in this page. Nothing that you type leaves it.`,
      loading: entries[0].address ? "Loading the translator…" : "Waiting for the kernel. If nothing comes, run the cell again.",
      failed: problem,
    };
    const pressed = ui.start.contains(document.activeElement);
    ui.start.hidden = view.state === "ready";
    ui.body.hidden = view.state !== "ready";
    if (pressed && view.state === "ready") ui.body.focus({ preventScroll: true }); // its button is gone
    ui.start.firstChild.textContent = sentences[view.state] ?? "";
    ui.controls.load.textContent = view.state === "failed" ? "Try again" : "Load the translator";
    ui.controls.load.setAttribute("aria-label", ui.controls.load.textContent);
    ui.controls.load.setAttribute("aria-disabled", String(view.state === "loading"));
  }

  function drawFacts() {
    const { facts } = ui;
    const { translator } = current;
    const part = partNow();
    facts.notes.textContent = problem || (result?.notes ?? []).join(" ");
    facts.notes.hidden = !facts.notes.textContent;
    facts.trained.textContent = `${trainedOn(translator)}${view.entry.measured ? ` ${measuredInWords(translator, view.entry.measured)}` : ""}`;
    facts.part.textContent = part?.sentence ?? "Choose a part, and see what becomes of the translation without it.";
    facts.effect.textContent = effect();
    const { whole, text } = result ?? {};
    facts.whole.textContent = !whole ? "" : whole.text === text ? "This phrase comes out the same." : `With all parts: ${whole.text}`;
    facts.whole.lang = whole ? "en" : "";
  }

  function draw() {
    drawStart();
    ui.language.set(view.entry.name);
    if (ui.input.value !== model.get("text")) ui.input.value = model.get("text");
    if (current) {
      ui.part.set(view.part);
      ui.look.set(view.look);
      ui.head.set(view.head);
      ui.beams.set(view.beams);
      drawFacts();
      drawResult();
      table.refresh();
    }
    Object.assign(here.root.dataset, {
      state: view.state,
      translator: view.entry.name,
      text: result?.text ?? "",
      done: String(Boolean(result?.beams)),
      steps: result?.steps.length ?? 0,
      word: word(),
      part: view.part,
    });
  }

  function drawResult() {
    const shown = shownSteps();
    for (const node of ui.body.querySelectorAll(".attnlab-pair, .attnlab-writing, .attnlab-chooser"))
      node.classList.toggle("attnlab-empty", !shown);
    const { translator } = current;
    const language = translator.language ?? "";
    for (const node of [ui.words.node, ui.said, ui.candidates, ui.list]) node.lang = language;
    const differs = (at) => Boolean(result.whole) && result.whole.ids[at] !== result.steps[at].id;
    ui.words.draw(
      shown ? written().slice(0, shown).map((text, at) => ({ text, differs: differs(at), probability: result.steps[at].top[0][1] })) : [],
      word(),
    );
    ui.controls.back.setAttribute("aria-disabled", String(word() < 1));
    ui.controls.on.setAttribute("aria-disabled", String(!result || word() >= result.steps.length - 1));
    if (!shown) return;
    const step = result.steps[word()];
    ui.facts.next.textContent = `Word ${word() + 1} of ${result.text ? result.steps.length : "…"}: what may follow ${word() ? `“${written()[word() - 1]}”` : "the beginning"}.`;
    const next = namesOf(step.top.map(([id]) => translator.targetWords[id]));
    ui.list.replaceChildren(
      ...step.top.map(([, probability], at) => {
        const line = weightBar(next[at], probability, at === 0);
        line.dataset.probability = probability;
        line.lastChild.textContent = percent(probability);
        return line;
      }),
    );
    drawLooking();
    ui.said.textContent = result.text ?? "";
    ui.facts.greedy.textContent = result.text === undefined ? "" : `Probability of the whole text: ${percent(result.probability)}.`;
    ui.candidates.replaceChildren(
      ...(result.beams ?? []).map(({ text, score, finished }) => {
        const line = element("li", {}, `${text || "(no text)"}${finished ? "" : " …"} `, element("span", { lang: "en" }, percent(Math.exp(score))));
        line.dataset.score = score;
        return line;
      }),
    );
    ui.candidates.setAttribute("aria-label", `What ${view.beams} beams found, the likeliest first`);
  }

  function drawLooking() {
    const place = looking();
    const weights = chosenWeights(place);
    const most = weights.indexOf(Math.max(...weights));
    const who = place.queries[place.query];
    const verb = view.look === "encoder" ? "reads" : "is to be written";
    ui.query.title.textContent = view.look === "encoder" ? `“${who}” looks` : `To write “${who}”`;
    const text = `${headInWords()}: where “${who}” ${verb}, most weight is on “${place.keys[most]}”, ${weights[most].toFixed(2)}.`;
    const width = clamp(Math.floor(ui.drawn.node.parentNode.clientWidth) || 300, 220, 460);
    ui.drawn.draw({ ...place, weights, width, label: text });
    ui.facts.arcs.textContent = text;
    ui.table.draw({ keys: place.keys, layers: place.layers, chosen: view.head, text: "Weights of every head, as layer.head. Each column sums to 1." });
    const last = view.look === "encoder" ? result.tokens.length - 1 : shownSteps() - 1;
    ui.query.back.setAttribute("aria-disabled", String(place.query < 1));
    ui.query.on.setAttribute("aria-disabled", String(place.query >= last));
  }

  const redraw = life.onePerFrame(draw);
  life.watch(model, ["text"], translate);
  let knownWidth; // the height follows from what is drawn: only another width is drawn anew
  life.onResize(here.root, ([{ contentRect }]) => {
    if (contentRect.width !== knownWidth) redraw();
    knownWidth = contentRect.width;
  });
  view.state = "waiting";
  ui.examples.set(EXAMPLES.includes(phrase()) ? phrase() : "");
  draw();
  if (!view.entry.address) load(); // the kernel is near
  return () => {
    gone = true;
    work.end();
    stopWaiting();
    clearTimeout(pace);
    here.remove();
  };
}

export default { render };

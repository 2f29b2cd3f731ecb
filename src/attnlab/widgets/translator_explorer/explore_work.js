// What is computed, piece by piece, so that the page can draw in between.

const BEYOND = 8; // tokens that beams may write beyond greedy's, where every one reads all the earlier ones again

/** Greedy search step by step, so that the page can draw in between. Yields {top, self, cross, id}. */
function* writing(model, encoded, ablation) {
  const state = model.start(encoded, ablation);
  const { max_length: most, eos } = model.config;
  for (let written = 0, id = -1; written < most && id !== eos; written++) {
    if (written) state.push(id);
    const { probabilities, self, cross } = state.next();
    const top = largestOf(probabilities, SHOWN).map((place) => [place, probabilities[place]]);
    id = top[0][0];
    yield { top, self, cross, id };
  }
}

/** Whether a phrase comes out right. It stops at the first token that is not the wanted text's. */
function* comesOutRight(model, [source, wanted], ablation) {
  const ids = [];
  const encoded = model.encode(model.tokenise(source).ids, ablation);
  for (const { id } of writing(model, encoded, ablation)) {
    ids.push(id);
    if (!wanted.startsWith(model.detokenise(ids))) return false;
    yield;
  }
  return model.detokenise(ids) === wanted;
}

/** A queue of work that is done in slices, so that the page stays quick. A job is a generator. */
function inSlices(onFailure) {
  const slice = 10; // milliseconds
  let [job, timer] = [null, 0];
  const turn = () => {
    const until = performance.now() + slice;
    try {
      while (job && performance.now() < until) if (job.next().done) job = null;
    } catch (error) {
      job = null;
      onFailure(error);
    }
    timer = job ? setTimeout(turn) : 0;
  };
  return {
    /** Begin a job in the place of the one before. Its first slice is done at once. */
    run(next) {
      clearTimeout(timer);
      job = next;
      turn();
    },
    end() {
      clearTimeout(timer);
      job = null;
    },
  };
}

/** Everything on one phrase, computed piece by piece into `result`; `show` is told when something new is there. */
function* translation({ model, ids, part, beams, phrases, known, result, show }) {
  const ablation = part?.ablation ?? {};
  result.encoded = model.encode(ids, ablation);
  yield;
  for (const step of writing(model, result.encoded, ablation)) {
    result.steps.push(step);
    show();
    yield;
  }
  const numbers = result.steps.map(({ id }) => id);
  result.text = model.detokenise(numbers);
  result.probability = result.steps.reduce((product, { top }) => product * top[0][1], 1);
  if (part) {
    const whole = [];
    for (const { id } of writing(model, model.encode(ids), {})) yield whole.push(id);
    result.whole = { ids: whole, text: model.detokenise(whole) };
  }
  show();
  yield;
  const quick = ablation.causal !== false && model.about.causal_mask !== false;
  const maxLength = Math.min(model.config.max_length, quick ? Infinity : numbers.length + BEYOND);
  result.beams = model.beam(result.encoded, { ablation, size: beams, maxLength }).candidates;
  show();
  yield;
  if (part && phrases.length && !known.has(part.name)) yield* measurement({ model, part, phrases, known, result, show });
}

/** Count how many held-out phrases come out right with all parts and without one. */
function* measurement({ model, part, phrases, known, result, show }) {
  const counts = { phrases: phrases.length, before: 0, after: 0 };
  for (const [at, phrase] of phrases.entries()) {
    counts.before += yield* comesOutRight(model, phrase, {});
    counts.after += yield* comesOutRight(model, phrase, part.ablation);
    result.counted = at + 1;
    if (at % 10 === 9) show();
  }
  known.set(part.name, counts);
  show();
}

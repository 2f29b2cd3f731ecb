// From text to text: what a reader may ask of a translator.

const SHOWN = 5; // the likeliest next tokens that are kept of each step

/** What the model reads of a text. The end mark is the last token; `unknown` names what it has never seen. */
function tokeniseSource(model, text) {
  const pieces = model.source.cut(String(text));
  const numberOf = (piece) => model.source.numbers.get(piece) ?? UNKNOWN;
  return {
    tokens: [...pieces, model.sourceWords[END_OF_TEXT]],
    ids: Int32Array.from([...pieces.map(numberOf), END_OF_TEXT]),
    unknown: [...new Set(pieces.filter((piece) => !model.source.numbers.has(piece)))],
    tooLong: pieces.length >= model.config.max_length,
  };
}

/** The encoder's work on a text, on token numbers, or on what it has done already. */
function encodeAny(model, source, ablation) {
  if (source?.memory) return source;
  return model.encode(typeof source === "string" ? model.tokenise(source).ids : source, ablation);
}

/** The places of the largest numbers, the largest first, and of equal ones the first. */
function largestOf(numbers, count) {
  const places = [];
  for (let place = 0; place < numbers.length; place++) {
    let at = places.length;
    while (at > 0 && numbers[places[at - 1]] < numbers[place]) at--;
    if (at < count) places.splice(at, 0, place);
    if (places.length > count) places.pop();
  }
  return places;
}

/** The likeliest next token, again and again, until the end: see Translator.greedy. */
function searchGreedily(model, source, { ablation = {}, maxLength = model.config.max_length } = {}) {
  const encoded = encodeAny(model, source, ablation);
  const state = model.start(encoded, ablation);
  const [ids, steps] = [[], []];
  while (ids.length < maxLength && ids.at(-1) !== model.config.eos) {
    const { probabilities, self, cross } = state.next();
    const top = largestOf(probabilities, SHOWN).map((id) => [id, probabilities[id]]);
    steps.push({ top, self, cross });
    ids.push(top[0][0]);
    state.push(top[0][0]);
  }
  return { ids, text: model.detokenise(ids), steps, encoded };
}

/**
 * The likeliest beginnings at once: see Translator.beam. Each step continues every beginning by every token and
 * takes the `size` likeliest. Those that end are set aside. It stops when `size` have ended and no beginning
 * scores higher than the worst of them.
 */
function searchBeam(model, source, options = {}) {
  const { ablation = {}, maxLength = model.config.max_length, size = 4, lengthPenalty = 0 } = options;
  const start = model.start(encodeAny(model, source, ablation), ablation);
  const score = (beam) => beam.sum / beam.ids.length ** lengthPenalty;
  const better = (one, other) => score(other) - score(one);
  let running = [{ ids: [], sum: 0, state: start }];
  let done = [];
  for (let step = 0; step < maxLength && running.length; step++) {
    const grown = continueBeams(running, size);
    const ended = grown.filter((beam) => beam.ids.at(-1) === model.config.eos);
    done = [...done, ...ended].sort(better).slice(0, size);
    running = grown.filter((beam) => !ended.includes(beam));
    const worst = done.length < size ? -Infinity : score(done.at(-1));
    if (running.every((beam) => score(beam) <= worst)) running = [];
    running.forEach((beam) => (beam.state = beam.parent.fork().push(beam.ids.at(-1))));
  }
  const candidates = [...done, ...running.sort(better)].slice(0, size).map((beam) => ({
    ids: beam.ids,
    text: model.detokenise(beam.ids),
    score: score(beam),
    finished: done.includes(beam),
  }));
  return { ...candidates[0], candidates };
}

/** The `size` likeliest ways to continue some beginnings by one token, the likeliest first. */
function continueBeams(running, size) {
  const grown = running.flatMap(({ ids, sum, state }) => {
    const { probabilities } = state.next();
    return largestOf(probabilities, size).map((id) => ({
      ids: [...ids, id],
      sum: sum + Math.log(probabilities[id]),
      parent: state,
    }));
  });
  return grown
    .filter((beam) => beam.sum > -Infinity)
    .sort((one, other) => other.sum - one.sum)
    .slice(0, size);
}

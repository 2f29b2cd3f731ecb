// The forward pass of the course's encoder-decoder Transformer, with every attention weight. No page is needed.
//
// It repeats, step by step, what attnlab.transformer computes from the same file: sums run in float64, and what is
// kept is float32. Vectors are Float32Arrays; S source tokens, T target tokens, d numbers a vector, H heads.
//
// What can be taken away, each left out where nothing is (an "ablation"):
//   heads: [{where: "encoder" | "self" | "cross", layer, head}]   that head adds nothing
//   crossLayers: [layer]      that decoder layer looks at no source
//   positions: false          no positions are added
//   scale: false              scores are not divided by the root of a head's width
//   causal: false             target tokens see the ones behind them

/** A trained translator. Make one with readTranslator. */
class Translator {
  constructor(config, weights, source, target, about) {
    Object.assign(this, { config, weights, source, target, about });
    this.language = about.language;
    this.sourceWords = source.tokens;
    this.targetWords = target.tokens;
  }

  /** {tokens, ids, unknown, tooLong} of a text; the end mark is the last token. */
  tokenise(text) {
    return tokeniseSource(this, text);
  }

  /** The text that target tokens say, up to their end. */
  detokenise(ids) {
    return this.target.decode(ids);
  }

  /**
   * Greedy search from a text, token numbers, or what encode made: {ids, text, steps, encoded}. A step is
   * {top: [[id, probability] x 5], self, cross}: the likeliest tokens, the first of which is written, and where
   * the last token looked for them.
   */
  greedy(source, options) {
    return searchGreedily(this, source, options);
  }

  /** Beam search of the same, with {size, lengthPenalty}: the best of `candidates`, all {ids, text, score, finished}. */
  beam(source, options) {
    return searchBeam(this, source, options);
  }

  /** A token's vector where it stands: its row times the root of d, plus its position. */
  embed(side, id, position, ablation) {
    const width = this.config.d_model;
    const row = this.weights[side].embedding.subarray(id * width, (id + 1) * width);
    const scaled = row.map((value) => value * Math.sqrt(width));
    const { positions } = this.config;
    if (positions === "none" || ablation.positions === false) return scaled;
    const learned = this.weights[side].positions?.subarray(position * width, (position + 1) * width);
    return addVectors(scaled, learned ?? sinusoid(position, width));
  }

  /** A sublayer inside its residual connection: the norm stands before it or after the sum. */
  around(norm, x, sublayer) {
    const before = this.config.norm === "pre" ? applyNorm(norm, x) : x;
    const sum = addVectors(x, sublayer(before));
    return this.config.norm === "pre" ? sum : applyNorm(norm, sum);
  }

  /** One query looks at rows of keys: {output, weights: [head] (number of keys)}. */
  attend(attention, x, memory, removed, ablation) {
    const { num_heads: heads, d_model: width } = this.config;
    const size = width / heads;
    const scale = ablation.scale === false ? 1 : 1 / Math.sqrt(size);
    const query = applyLinear(attention.w_q, x);
    const mixed = new Float64Array(width);
    const weights = [];
    for (let head = 0; head < heads; head++) {
      const [from, to] = [head * size, (head + 1) * size];
      const scores = new Float64Array(memory.keys.length);
      for (let j = 0; j < scores.length; j++) {
        const key = memory.keys[j];
        let score = 0;
        for (let c = from; c < to; c++) score += query[c] * key[c];
        scores[j] = score * scale;
      }
      weights.push(softmaxOf(scores));
      if (removed(head)) continue;
      for (let j = 0; j < scores.length; j++) {
        const [weight, value] = [weights[head][j], memory.values[j]];
        for (let c = from; c < to; c++) mixed[c] += weight * value[c];
      }
    }
    return { output: applyLinear(attention.w_o, Float32Array.from(mixed)), weights };
  }

  /** Read the source: {ids, memory: [S] vectors, attention: [layer][head] Float32Array (S * S)}. */
  encode(ids, ablation = {}) {
    this.checkIds(ids, this.sourceWords.length);
    const attention = [];
    let rows = Array.from(ids, (id, position) => this.embed("source", id, position, ablation));
    this.weights.encoder.forEach((layer, number) => {
      const removed = headsTakenAway(ablation, "encoder", number);
      const before = (x) => (this.config.norm === "pre" ? applyNorm(layer.around_self, x) : x);
      const memory = keysAndValues(layer.self_attention, rows.map(before));
      const seen = [];
      rows = rows.map((x) => {
        const attended = this.around(layer.around_self, x, (y) => {
          const { output, weights } = this.attend(layer.self_attention, y, memory, removed, ablation);
          seen.push(weights);
          return output;
        });
        return this.around(layer.around_feed_forward, attended, (y) => feedForward(layer.feed_forward, y));
      });
      attention.push(seen[0].map((_, head) => flatRows(seen.map((weights) => weights[head]))));
    });
    return { ids, memory: rows.map((x) => applyNorm(this.weights.encoderNorm, x)), attention };
  }

  /** Begin a target for what encode made: see TargetState. */
  start(encoded, ablation = {}) {
    const sources = this.weights.decoder.map((layer) => keysAndValues(layer.cross_attention, encoded.memory));
    return new TargetState(this, sources, { causal: this.about.causal_mask ?? true, ...ablation });
  }

  /** The number of each token's score: the table of target embeddings again, where the output is tied. */
  logitsOf(x) {
    const { output, target } = this.weights;
    const logits = applyLinear({ weight: output ?? target.embedding }, applyNorm(this.weights.decoderNorm, x));
    if (!output) logits[this.config.pad] = 0;
    return logits;
  }

  checkIds(ids, vocabulary) {
    const { max_length: most } = this.config;
    if (ids.length < 1 || ids.length > most)
      throw new RangeError(`expected 1 to ${most} tokens, got ${ids.length}`);
    if (!Array.from(ids).every((id) => Number.isInteger(id) && id >= 0 && id < vocabulary))
      throw new RangeError(`expected token numbers from 0 to ${vocabulary - 1}`);
  }
}

// The decoder at work: a target that grows token by token, and what is kept of it.

/** A target as far as it is written, with the keys and values of its tokens, which are computed once. */
class TargetState {
  constructor(model, sources, ablation, ids = [model.config.bos], caches = null) {
    Object.assign(this, { model, sources, ablation, ids });
    this.caches = caches ?? sources.map(() => ({ keys: [], values: [] }));
    this.latest = null;
  }

  /** A state that can be continued by itself. No vector is ever written again, so only the lists are copied. */
  fork() {
    const caches = this.caches.map(({ keys, values }) => ({ keys: [...keys], values: [...values] }));
    const copy = new TargetState(this.model, this.sources, this.ablation, [...this.ids], caches);
    copy.latest = this.latest;
    return copy;
  }

  /** Write a token. What follows it is asked for by next(). */
  push(id) {
    this.next(); // its token must be in the cache before another stands behind it
    this.model.checkIds([id], this.model.targetWords.length);
    this.ids.push(id);
    this.latest = null;
    return this;
  }

  /**
   * What may follow: {logits, probabilities} (V), and for the last token {self, cross}: [layer][head] weights over
   * the target so far and over the source. Padding and the begin are never written, and have no probability.
   */
  next() {
    this.latest ??= this.ablation.causal === false ? this.readAll() : this.readNewest();
    return this.latest;
  }

  readNewest() {
    const position = this.ids.length - 1;
    this.model.checkIds(this.ids, this.model.targetWords.length);
    let x = this.model.embed("target", this.ids[position], position, this.ablation);
    const seen = { self: [], cross: [] };
    this.model.weights.decoder.forEach((layer, number) => {
      x = this.readLayer(layer, number, [x], this.caches[number], seen)[0];
    });
    return this.result(x, seen);
  }

  /** Without the causal mask earlier tokens see the newest too, so that nothing can be kept. */
  readAll() {
    this.model.checkIds(this.ids, this.model.targetWords.length);
    let rows = this.ids.map((id, position) => this.model.embed("target", id, position, this.ablation));
    const seen = { self: [], cross: [] };
    this.model.weights.decoder.forEach((layer, number) => {
      rows = this.readLayer(layer, number, rows, { keys: [], values: [] }, seen);
    });
    return this.result(rows.at(-1), seen);
  }

  /** Send rows through a decoder layer; `seen` gets the weights of the last row. */
  readLayer(layer, number, rows, cache, seen) {
    const { model, ablation } = this;
    const before = (x) => (model.config.norm === "pre" ? applyNorm(layer.around_self, x) : x);
    const added = keysAndValues(layer.self_attention, rows.map(before));
    cache.keys.push(...added.keys);
    cache.values.push(...added.values);
    const noSource = (ablation.crossLayers ?? []).includes(number);
    const look = (where, attention, x, memory) => {
      const removed = headsTakenAway(ablation, where, number);
      const { output, weights } = model.attend(attention, x, memory, removed, ablation);
      seen[where][number] = weights;
      return where === "cross" && noSource ? output.fill(0) : output;
    };
    return rows.map((x) => {
      const own = model.around(layer.around_self, x, (y) => look("self", layer.self_attention, y, cache));
      const crossed = model.around(layer.around_cross, own, (y) =>
        look("cross", layer.cross_attention, y, this.sources[number]),
      );
      return model.around(layer.around_feed_forward, crossed, (y) => feedForward(layer.feed_forward, y));
    });
  }

  result(x, seen) {
    const logits = this.model.logitsOf(x);
    const allowed = logits.slice();
    allowed[this.model.config.pad] = allowed[this.model.config.bos] = -Infinity;
    return { logits, probabilities: softmaxOf(allowed), ...seen };
  }
}

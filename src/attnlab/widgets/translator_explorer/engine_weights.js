// From the tensors of a file to the parts of a model. A tensor that is missing, left over or of another size is
// damage: nothing is guessed.

/**
 * Read the file that attnlab.export writes.
 *
 * Returns a Translator. Throws a TranslatorFileError, whose message is for readers and whose `kind` is "damaged",
 * "newer" or "other", where the file is not whole, was saved by a newer version, or is of another kind.
 */
function readTranslator(file) {
  const bytes = Uint8Array.from(file); // our own copy, which begins at 0
  const { header, from } = readTensorHeader(bytes);
  const document = readTranslatorDocument(bytes, header);
  try {
    checkConfig(document.config);
    const source = new TextTokeniser(document.source);
    const target = new TextTokeniser(document.target);
    const weights = gatherWeights(readTensors(bytes, header, from), document.config);
    const { source_vocab_size: read, target_vocab_size: written } = document.config;
    if (source.tokens.length !== read || target.tokens.length !== written)
      throw new TranslatorFileError("damaged", "a vocabulary is of another size than the model");
    return new Translator(document.config, weights, source, target, document.about ?? {});
  } catch (error) {
    if (error instanceof TranslatorFileError) throw error;
    throw new TranslatorFileError("damaged", `its parts do not fit together: ${error.message}`);
  }
}

function checkConfig(config) {
  const sizes = ["d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers", "max_length"];
  const whole = sizes.every((name) => Number.isInteger(config[name]) && config[name] > 0);
  if (!whole || config.d_model % config.num_heads)
    throw new TranslatorFileError("damaged", "its sizes do not fit together");
  const known = {
    activation: ["relu"],
    norm: ["pre", "post"],
    positions: ["sinusoidal", "learned", "none"],
  };
  for (const [name, values] of Object.entries(known))
    if (!values.includes(config[name])) throw new TranslatorFileError("other", `${name} is ${config[name]}`);
}

/** The weights by what they are for, each tensor taken once. */
function gatherWeights(tensors, config) {
  const { d_model: width, d_ff: inner, max_length: length } = config;
  const take = (name, ...shape) => {
    const tensor = tensors.get(name);
    if (!tensor || String(tensor.shape) !== String(shape))
      throw new TranslatorFileError("damaged", `expected ${name} of shape ${shape}, got ${tensor?.shape}`);
    tensors.delete(name);
    return tensor.data;
  };
  const linear = (name, rows, columns) => ({
    weight: take(`${name}.weight`, rows, columns),
    bias: take(`${name}.bias`, rows),
  });
  const norm = (name) => ({ weight: take(`${name}.weight`, width), bias: take(`${name}.bias`, width) });
  const attention = (name) =>
    Object.fromEntries(["w_q", "w_k", "w_v", "w_o"].map((part) => [part, linear(`${name}.${part}`, width, width)]));
  const layer = (name, attentions, norms) => ({
    ...Object.fromEntries(attentions.map((part) => [part, attention(`${name}.${part}`)])),
    ...Object.fromEntries(norms.map((part) => [part, norm(`${name}.${part}.norm`)])),
    feed_forward: {
      w_1: linear(`${name}.feed_forward.w_1`, inner, width),
      w_2: linear(`${name}.feed_forward.w_2`, width, inner),
    },
  });
  const stack = (name, count, ...parts) =>
    Array.from({ length: count }, (_, number) => layer(`stacks.${name}_layers.${number}`, ...parts));
  const positions = (side) =>
    config.positions === "learned" ? take(`${side}_positions.table`, length, width) : null;
  const finalNorm = (side) =>
    config.final_norm ?? config.norm === "pre" ? norm(`stacks.${side}_norm`) : null;

  const embedding = take("embeddings.0.weight", config.source_vocab_size, width);
  const other = config.share_embeddings ? embedding : take("embeddings.1.weight", config.target_vocab_size, width);
  const attend = ["self_attention", "cross_attention"];
  const around = ["around_self", "around_cross", "around_feed_forward"];
  const weights = {
    source: { embedding, positions: positions("source") },
    target: { embedding: other, positions: positions("target") },
    encoder: stack("encoder", config.num_encoder_layers, [attend[0]], [around[0], around[2]]),
    decoder: stack("decoder", config.num_decoder_layers, attend, around),
    encoderNorm: finalNorm("encoder"),
    decoderNorm: finalNorm("decoder"),
    output: config.tie_output ? null : take("output.weight", config.target_vocab_size, width),
  };
  if (tensors.size) throw new TranslatorFileError("damaged", `not expected: ${[...tensors.keys()]}`);
  return weights;
}

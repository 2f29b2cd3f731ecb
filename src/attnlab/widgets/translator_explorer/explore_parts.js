// What can be taken away from a translator, by the names that its measured effects have too.

const WHERE = { encoder: "encoder", self: "decoder’s self-attention", cross: "cross-attention" };

/** Every part that can be taken away alone: {name, label, group, ablation, sentence}. Layers and heads count from 1. */
function partsOf({ config, about }) {
  const { num_heads: heads, num_encoder_layers: read, num_decoder_layers: written, d_model: width } = config;
  const root = readable(Math.sqrt(width / heads));
  const whole = [
    ["positions", "The positions", "Without positions the encoder reads a bag of words. Only the causal mask still tells the decoder something of order."],
    ["scale", "The division by √dₖ", `Every score is now ${root} times as large as in training, so each softmax is far sharper.`],
    ["causal", "The causal mask", "While it writes there is no later word to hide. Yet each word now sees the ones behind it, which it never did in training."],
  ].map(([name, label, sentence]) => ({ name, label, group: "Everywhere", ablation: { [name]: false }, sentence }));
  const layers = upTo(written).map((layer) => ({
    name: `cross ${layer}`,
    label: `Layer ${layer + 1}’s cross-attention`,
    group: "A layer’s cross-attention",
    ablation: { crossLayers: [layer] },
    sentence: `Layer ${layer + 1} of the decoder now sees nothing of the phrase. What is known of it comes from ${written > 2 ? "the other layers" : written > 1 ? "the other layer" : "nowhere"}.`,
  }));
  const single = Object.entries({ encoder: read, self: written, cross: written }).flatMap(([where, count]) =>
    upTo(count * heads).map((at) => {
      const [layer, head] = [Math.floor(at / heads), at % heads];
      return {
        name: `${where} ${layer} ${head}`,
        label: `Layer ${layer + 1}, head ${head + 1}`,
        group: `A head of the ${WHERE[where]}`,
        ablation: { heads: [{ where, layer, head }] },
        sentence: "The other heads still look. Which head does what changes with the seed of the training.",
      };
    }),
  );
  const masked = about.causal_mask !== false; // what a translator never had cannot be taken away
  return [...whole.filter(({ name }) => masked || name !== "causal"), ...layers, ...single];
}

/** The stored share of exact matches without a part; undefined where none was measured. */
function storedEffect(measured, name) {
  const effects = measured?.effects;
  const [where, layer, head] = name.split(" ");
  if (!effects) return undefined;
  if (layer === undefined) return effects[name];
  return head === undefined ? effects.crossLayers[layer] : effects.heads[where][layer][head];
}

/** How many of the phrases came out right, in words. */
const effectInWords = ({ phrases, before, after }) =>
  `Of ${phrases} held-out phrases ${before} come out right with all parts, and ${after} without this one.`;

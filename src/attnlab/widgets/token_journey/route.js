// What happens to one token at each station, computed here in float64 from the float32 numbers of one run.

const PARTS = { self: "self-attention", cross: "cross-attention", feed: "feed-forward" };
const STACKS = ["encoder", "decoder"];
const dot = (a, b) => total(Array.from(a, (number, k) => number * b[k]));
const lengthOf = (x) => Math.sqrt(dot(x, x));
const plus = (a, b) => Array.from(a, (number, k) => number + b[k]);

function softmaxOf(scores) {
  const largest = Math.max(...scores);
  const parts = scores.map((score) => Math.exp(score - largest)); // a hidden key has −∞ and gets 0
  return parts.map((part) => part / total(parts));
}

function normOf(x, [factors, shifts], eps) {
  const mean = total(x) / x.length;
  const variance = total(x.map((number) => (number - mean) ** 2)) / x.length;
  return x.map((number, k) => ((number - mean) / Math.sqrt(variance + eps)) * factors[k] + shifts[k]);
}

/** The run, unpacked: numbers in the order of Python's Recorded.packed. */
function runOf(model) {
  const sizes = model.get("sizes");
  const ids = [model.get("source"), model.get("target")];
  const flat = floats(model.get("numbers"));
  let at = 0;
  const take = (rows) => upTo(rows).map(() => [...flat.subarray(at, (at += sizes.width))]);
  const table = take(model.get("words").length);
  const positions = ids.map((side) => take(side.length));
  const real = ids[0].map((id) => id !== sizes.pad);
  const sublayer = (side, part) => {
    const asks = ids[side].length;
    const asked = part === "cross" ? ids[0].length : asks;
    const norm = take(2);
    const [query, key] = part === "feed" ? [] : [take(asks), take(asked)];
    const sees = (i, j) => (side && part === "self" ? j <= i : real[j]);
    return { part, norm, query, key, sees, output: take(asks) };
  };
  const stacks = STACKS.map((_, side) => {
    const parts = side ? ["self", "cross", "feed"] : ["self", "feed"];
    const layers = upTo(sizes.layers[side]).map(() => parts.map((part) => sublayer(side, part)));
    return { layers, last: sizes.last[side] ? take(2) : null };
  });
  return { ...sizes, ids, table, positions, stacks };
}

/** Weights of token i in each head, hidden keys 0, or nothing where no token is asked. */
function weightsOf({ query, key, sees }, i, heads) {
  if (!query) return undefined;
  const D = query[i].length / heads;
  return upTo(heads).map((h) => {
    const own = (x) => x.slice(h * D, (h + 1) * D);
    return softmaxOf(key.map((row, j) => (sees(i, j) ? dot(own(query[i]), own(row)) / Math.sqrt(D) : -Infinity)));
  });
}

/** The stations of token i of the source (side 0) or of the target (side 1), in their order. */
function route(run, side, i) {
  const { table, heads, eps, pre, width } = run;
  const { layers, last } = run.stacks[side];
  const logitsOf = (x) => table.map((row) => dot(row, x));
  const end = run.stacks[1].last;
  const say = (x) => softmaxOf(logitsOf(end ? normOf(x, end, eps) : x));
  const stations = [];
  /** One station; what leaves it is a state of the stream, or on its way there. */
  const stop = (kind, cameIn, goesOut, { inStream = true, ...more } = {}) => {
    stations.push({ side, kind, cameIn, goesOut, said: side && inStream ? say(goesOut) : undefined, ...more });
    return goesOut;
  };
  let x = stop("embed", undefined, table[run.ids[side][i]].map((number) => number * Math.sqrt(width)));
  x = stop("position", x, plus(x, run.positions[side][i]), { added: run.positions[side][i] });
  layers.forEach((sublayers, number) => {
    for (const one of sublayers) {
      const here = { layer: number + 1, part: one.part, inStream: false };
      const asks = pre ? stop("norm", x, normOf(x, one.norm, eps), here) : x;
      const weights = weightsOf(one, i, heads);
      const sees = weights && one.key.map((_, j) => one.sees(i, j));
      const output = stop("say", asks, one.output[i], { ...here, weights, sees });
      const sum = stop("sum", x, plus(x, output), { ...here, inStream: pre, added: output });
      x = pre ? sum : stop("norm", sum, normOf(sum, one.norm, eps), { ...here, inStream: true });
    }
  });
  if (last) {
    const before = x;
    x = stop("last", before, normOf(before, last, eps), { inStream: false });
    if (side) stations.at(-1).said = say(before);
  }
  if (side) {
    const logits = logitsOf(x);
    const said = softmaxOf(logits);
    stop("logits", x, logits, { inStream: false, said });
    stop("softmax", logits, said, { inStream: false, said });
  }
  return stations;
}

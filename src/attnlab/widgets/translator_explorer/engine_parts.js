// The operations that a Transformer is made of. Sums run in float64; what is kept is float32.

/** y = W x + b, where W has a row for each output. Four sums at once keep the processor from waiting. */
function applyLinear({ weight, bias }, x) {
  const width = x.length;
  const y = new Float32Array(weight.length / width);
  for (let row = 0, k = 0; row < y.length; row++) {
    let [s0, s1, s2, s3] = [bias ? bias[row] : 0, 0, 0, 0];
    let i = 0;
    for (; i + 3 < width; i += 4, k += 4) {
      s0 += weight[k] * x[i];
      s1 += weight[k + 1] * x[i + 1];
      s2 += weight[k + 2] * x[i + 2];
      s3 += weight[k + 3] * x[i + 3];
    }
    for (; i < width; i++, k++) s0 += weight[k] * x[i];
    y[row] = s0 + s1 + (s2 + s3);
  }
  return y;
}

/** Layer norm with the biased variance; no norm leaves the vector as it is. */
function applyNorm(norm, x) {
  if (!norm) return x;
  let mean = 0;
  for (const value of x) mean += value / x.length;
  let variance = 0;
  for (const value of x) variance += (value - mean) ** 2 / x.length;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  return x.map((value, i) => (value - mean) * scale * norm.weight[i] + norm.bias[i]);
}

/** Softmax; a score of minus infinity gets no weight, and a row of nothing else gets none at all. */
function softmaxOf(scores) {
  const largest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  const weights = new Float64Array(scores.length);
  if (largest === -Infinity) return Float32Array.from(weights);
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += weights[i] = Math.exp(scores[i] - largest);
  return Float32Array.from(weights, (weight) => weight / sum);
}

const addVectors = (x, y) => x.map((value, i) => value + y[i]);

/** The sine and cosine that mark a position. */
function sinusoid(position, width) {
  return Float32Array.from({ length: width }, (_, i) => {
    const angle = position * 10000 ** (-(i - (i % 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** The keys and values of some vectors. */
function keysAndValues(attention, rows) {
  return {
    keys: rows.map((x) => applyLinear(attention.w_k, x)),
    values: rows.map((x) => applyLinear(attention.w_v, x)),
  };
}

function feedForward({ w_1: first, w_2: second }, x) {
  const inner = applyLinear(first, x);
  for (let i = 0; i < inner.length; i++) if (inner[i] < 0) inner[i] = 0;
  return applyLinear(second, inner);
}

/** Which heads of a layer add nothing, as a function of the head. */
function headsTakenAway({ heads = [] }, where, layer) {
  const numbers = heads.filter((head) => head.where === where && head.layer === layer).map(({ head }) => head);
  return (head) => numbers.includes(head);
}

/** Rows of equal length, one behind the other. */
function flatRows(rows) {
  const flat = new Float32Array(rows.length * rows[0].length);
  rows.forEach((row, i) => flat.set(row, i * row.length));
  return flat;
}

// The file of a translator, as attnlab.export writes it: weights, configuration, both vocabularies and a digest.

const TRANSLATOR_FORMAT = "attnlab translator";
const TRANSLATOR_VERSION = 1; // the newest that is read here
const DIGEST_LENGTH = 64;

/** A file that cannot be used. `kind` is "damaged", "newer" or "other", and the message is for readers. */
class TranslatorFileError extends Error {
  constructor(kind, detail) {
    const sentences = {
      damaged: "The file with the translator's weights is damaged. Load it again.",
      newer: "This translator was saved by a newer version of the course than this page. Load the page again.",
      other: "This is not the file of a translator, or of one that this page cannot run.",
    };
    super(sentences[kind]);
    this.name = "TranslatorFileError";
    this.kind = kind;
    this.detail = detail; // for those who look for the cause
  }
}

/** The 64 constants and the 8 first words of SHA-256: fractions of cube and square roots of the first primes. */
function sha256Constants() {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  // The exact integer root of prime * 2 ** (power * 32), whose last 32 bits are the fraction.
  const fraction = (prime, power) => {
    const wanted = BigInt(prime) << BigInt(32 * power);
    let root = BigInt(Math.floor(prime ** (1 / power) * 2 ** 32));
    while (root ** BigInt(power) > wanted) root -= 1n;
    while ((root + 1n) ** BigInt(power) <= wanted) root += 1n;
    return Number(root & 0xffffffffn);
  };
  return { rounds: primes.map((p) => fraction(p, 3)), first: primes.slice(0, 8).map((p) => fraction(p, 2)) };
}

/** SHA-256 (FIPS 180-4) as hexadecimal digits. The browser's own is missing on pages opened from a file. */
function sha256(bytes) {
  const { rounds, first } = sha256Constants();
  const constants = Int32Array.from(rounds, (word) => word | 0);
  const state = Int32Array.from(first, (word) => word | 0);
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length * 8) >>> 0);
  const words = new Int32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 16; i++) words[i] = view.getInt32(block + 4 * i);
    sha256Block(state, words, constants);
  }
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

function sha256Block(state, words, constants) {
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  for (let i = 16; i < 64; i++) {
    const [x, y] = [words[i - 15], words[i - 2]];
    const low = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
    const high = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
    words[i] = (words[i - 16] + low + words[i - 7] + high) | 0;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const mix = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g));
    const one = (h + mix + constants[i] + words[i]) | 0;
    const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] += word));
}

/** The header of a safetensors file, and where its numbers begin. */
function readTensorHeader(bytes) {
  const damaged = (detail) => new TranslatorFileError("damaged", detail);
  if (bytes.length < 8) throw damaged("shorter than the length of its header");
  const size = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  if (size > bytes.length - 8) throw damaged("its header is cut short");
  try {
    const header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + size)));
    if (header === null || typeof header !== "object" || Array.isArray(header)) throw damaged("its header is no table");
    return { header, from: 8 + size };
  } catch (error) {
    throw error instanceof TranslatorFileError ? error : damaged(`its header cannot be read: ${error.message}`);
  }
}

/** The document of a file that is of this kind, not newer than this page, and whole. */
function readTranslatorDocument(bytes, header) {
  let document;
  try {
    document = JSON.parse(header.__metadata__?.attnlab ?? "{}") ?? {};
  } catch (error) {
    throw new TranslatorFileError("damaged", `its document is not JSON: ${error.message}`);
  }
  if (document.format !== TRANSLATOR_FORMAT) throw new TranslatorFileError("other", "not a saved translator");
  if (!Number.isInteger(document.version) || document.version > TRANSLATOR_VERSION)
    throw new TranslatorFileError("newer", `format of version ${document.version}`);
  if (!digestFits(bytes, document.sha256)) throw new TranslatorFileError("damaged", "its digest does not fit");
  return document;
}

/** Whether the digest is that of the file with the digest's own digits replaced by zeros. */
function digestFits(bytes, digest) {
  if (typeof digest !== "string" || !/^[0-9a-f]{64}$/.test(digest)) return false;
  const digits = new TextEncoder().encode(digest);
  const stands = (at) => digits.every((digit, i) => bytes[at + i] === digit);
  let at = bytes.indexOf(digits[0]);
  while (at >= 0 && !stands(at)) at = bytes.indexOf(digits[0], at + 1);
  if (at < 0) return false;
  const blank = bytes.slice().fill("0".charCodeAt(0), at, at + DIGEST_LENGTH);
  return sha256(blank) === digest;
}

/** All tensors as float32: {data, shape} by name, matrices of 8 bits multiplied by the scales of their rows. */
function readTensors(bytes, header, from) {
  const kinds = { F32: Float32Array, I8: Int8Array };
  const found = new Map();
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const Kind = kinds[dtype];
    const count = shape.reduce((product, size) => product * size, 1);
    const [start, stop] = offsets;
    if (!Kind || stop - start !== count * Kind.BYTES_PER_ELEMENT || start < 0 || from + stop > bytes.length)
      throw new TranslatorFileError("damaged", `the size of ${name} does not fit`);
    // A copy, since numbers of four bytes must begin at a multiple of four.
    found.set(name, { data: new Kind(bytes.slice(from + start, from + stop).buffer), shape });
  }
  return restoreRows(found);
}

function restoreRows(found) {
  const tensors = new Map();
  for (const [name, { data, shape }] of found) {
    if (name.endsWith(".scale")) continue;
    const scales = found.get(`${name}.scale`)?.data;
    if (!scales && !(data instanceof Float32Array))
      throw new TranslatorFileError("damaged", `${name} has no scales`);
    tensors.set(name, { data: scales ? timesScales(data, scales) : data, shape });
  }
  return tensors;
}

function timesScales(data, scales) {
  const width = data.length / scales.length;
  const restored = new Float32Array(data.length);
  for (let row = 0, k = 0; row < scales.length; row++)
    for (const stop = k + width; k < stop; k++) restored[k] = data[k] * scales[row];
  return restored;
}

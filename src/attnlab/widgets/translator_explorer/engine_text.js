// From text to tokens and back, as attnlab.tasks and attnlab.export do it: the same pieces on every text.

const END_OF_TEXT = 2;
const UNKNOWN = 3;
// Python's white space, spelt out: JavaScript's own class is another.
const SPACES = String.raw`\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;
// A digit; or a word or one sign with the space before it, and with the one behind it where a digit follows; or
// one white space. Numbers that are no digits, such as a Roman one, count as letters, as they do in Python.
const PIECE = new RegExp(
  String.raw`\p{Nd}| ?(?:[\p{L}\p{Nl}\p{No}]+|[^${SPACES}\p{Nd}])(?: (?=\p{Nd}))?|[${SPACES}]`,
  "gu",
);
const PAIR = "\0"; // stands between two pieces; no word holds it

/** Lower case letter by letter: the few letters whose lower case has two characters stay as they are. */
function foldCase(text) {
  return Array.from(text, (letter) => {
    const lower = letter.toLowerCase();
    return Array.from(lower).length === 1 ? lower : letter;
  }).join("");
}

const splitWords = (text) => text.match(PIECE) ?? [];

/** How one side's text becomes numbers and numbers become text, made of what the file says of it. */
class TextTokeniser {
  constructor({ tokens, pieces, lower_case: lowerCase, merges }) {
    if (!["words", "characters", "subwords"].includes(pieces))
      throw new TranslatorFileError("damaged", `unknown pieces: ${pieces}`);
    Object.assign(this, { tokens, pieces, lowerCase });
    this.numbers = new Map(tokens.map((token, number) => [token, number]));
    this.ranks = new Map(merges.map(([first, second], rank) => [first + PAIR + second, rank]));
  }

  cut(text) {
    const folded = this.lowerCase ? foldCase(text) : text;
    if (this.pieces === "characters") return Array.from(folded);
    const words = splitWords(folded);
    return this.pieces === "words" ? words : words.flatMap((word) => this.cutWord(word));
  }

  /** A word's characters, joined pair by pair in the order in which the pairs were learnt. */
  cutWord(word) {
    let row = Array.from(word.replace(/^ +| +$/g, ""));
    if (row.length < 2) return [word]; // digits and signs stand alone
    if (word.startsWith(" ")) row[0] = ` ${row[0]}`;
    if (word.endsWith(" ")) row[row.length - 1] += " ";
    const rank = (i) => this.ranks.get(row[i] + PAIR + row[i + 1]) ?? Infinity;
    for (;;) {
      let best = -1;
      for (let i = 0; i + 1 < row.length; i++) if (rank(i) < (best < 0 ? Infinity : rank(best))) best = i;
      if (best < 0) return row;
      row = joinPair(row, row[best], row[best + 1]);
    }
  }

  /** Numbers up to the end of the text: padding and the begin are left out. */
  decode(numbers) {
    const end = numbers.indexOf(END_OF_TEXT);
    const before = Array.from(end < 0 ? numbers : numbers.slice(0, end));
    return before.map((number) => (number < END_OF_TEXT ? "" : this.tokens[number])).join("");
  }
}

/** The row with every occurrence of a pair made one piece, from the left. */
function joinPair(row, first, second) {
  const joined = [];
  for (let i = 0; i < row.length; i++) {
    const found = row[i] === first && row[i + 1] === second;
    joined.push(found ? first + second : row[i]);
    if (found) i++;
  }
  return joined;
}

// What is said of a phrase before it is translated: what the translator cannot know, and what there is not.

const MONTHS =
  "january february march april may june july august september october november december".split(" ");
const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const WEEKDAYS = "sunday monday tuesday wednesday thursday friday saturday".split(" ");
const DATE = new RegExp(
  String.raw`(?:\b(${WEEKDAYS.join("|")}),? )?\b(${MONTHS.join("|")}) (\d{1,2})(?!\d)(?:, (\d{4})(?!\d))?`,
);
const TIME = /(?<!\d)(\d{1,2}):(\d{1,2})(?!\d)(?: ?([ap])\.?m)?/;
const OF_TODAY = 1583; // the first whole year of the calendar that we use
const MOST_NAMED = 5; // unknown words in one sentence
const NAMED_UP_TO = 24; // letters of one

const capital = (word) => word[0].toUpperCase() + word.slice(1);

/** The last day of a month; of February in an unknown year the 29th. */
function lastDay(month, year) {
  if (month !== 1 || year === undefined) return MONTH_DAYS[month];
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
}

/** A sentence on a date that does not exist or has another weekday, or on such a time. None: an empty text. */
function cautionFor(text) {
  const low = text.toLowerCase().replace(/\s+/g, " ");
  return dateCaution(low) || timeCaution(low);
}

function dateCaution(low) {
  const [, weekday, name, digits, yearDigits] = DATE.exec(low) ?? [];
  if (!name) return "";
  const [month, day, year] = [MONTHS.indexOf(name), Number(digits), yearDigits && Number(yearDigits)];
  const last = lastDay(month, year);
  if (day < 1 || day > last)
    return `${capital(name)}${year && month === 1 ? ` ${year}` : ""} has ${last} days. The translator knows no calendar: it writes a day ${day} as surely as any other.`;
  if (!weekday || !year || year < OF_TODAY) return "";
  const real = WEEKDAYS[new Date(Date.UTC(year, month, day)).getUTCDay()];
  return real === weekday
    ? ""
    : `${capital(name)} ${day}, ${year}, is a ${capital(real)}. The translator knows no calendar: it writes the weekday that it is given.`;
}

function timeCaution(low) {
  const [time, hours, minutes, half] = TIME.exec(low) ?? [];
  if (!time) return "";
  const [first, last] = half ? [1, 12] : [0, 23];
  const exists = Number(hours) >= first && Number(hours) <= last && Number(minutes) < 60 && minutes.length === 2;
  return exists ? "" : `No clock shows ${time}. The translator knows no clock, and writes something all the same.`;
}

/** A piece as it can be shown. */
function shownPiece(piece) {
  const special = { "<eos>": "end", "<bos>": "begin", "<unk>": "unknown", "<pad>": "padding" };
  const text = special[piece] ?? (piece.trim() || "space");
  return text.length > NAMED_UP_TO ? `${Array.from(text).slice(0, NAMED_UP_TO).join("")}…` : text;
}

/** The names of some pieces; the spaces of those that differ in nothing else are shown. */
function namesOf(pieces) {
  const names = pieces.map(shownPiece);
  const alone = (name) => names.indexOf(name) === names.lastIndexOf(name);
  return names.map((name, at) => (alone(name) ? name : pieces[at].replaceAll(/\s/g, "␣")));
}

/** The words that the translator does not know, by name. */
function unknownNote(unknown) {
  const named = unknown.slice(0, MOST_NAMED).map((piece) => `“${shownPiece(piece)}”`);
  const more = unknown.length - named.length;
  const it = unknown.length === 1 ? "it" : "them";
  return `The translator has never seen ${enumerated(more ? [...named, `${more} more`] : named)}. It reads <unk> for ${it}, so what it writes there is a guess.`;
}

/** What is to be said of a phrase: {ready, notes}. It is translated only where it is ready. */
function notesOn(model, text, { ids, unknown, tooLong }) {
  const most = model.config.max_length - 1;
  if (!text)
    return { ready: false, notes: ["Type a date, a time, an amount of money or a number in English, or choose an example."] };
  if (tooLong)
    return {
      ready: false,
      notes: [`This phrase has ${ids.length - 1} pieces, and the translator reads at most ${most}. Try a shorter one.`],
    };
  const notes = [unknown.length ? unknownNote(unknown) : "", cautionFor(text)];
  return { ready: true, notes: notes.filter(Boolean) };
}

/** What the translator has learnt from, and what it has not. */
function trainedOn(translator) {
  const words = translator.sourceWords.length - UNKNOWN - 1;
  return `Trained in lesson 9 on 20,000 phrases of five kinds: dates with and without a weekday, a date with a time, amounts of money, and numbers in words. It knows ${words} English pieces, capitals or not, and nothing else.`;
}

/** How good it is; of the one that was trained without a mask, why it is not. */
function measuredInWords(translator, { phrases, exact_match: share, loss }) {
  const right = Math.round(share * phrases);
  if (translator.about.causal_mask === false)
    return `Trained without the causal mask, it could read in each place the very word that it had to write: its loss fell to ${loss}. Now that it has to write, there is nothing to read: ${right} of ${phrases} held-out phrases come out right.`;
  return `Of ${phrases} held-out phrases ${right} come out right.`;
}

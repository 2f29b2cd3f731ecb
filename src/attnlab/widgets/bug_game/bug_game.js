// The bug game: which bug made this curve? Distances, choices, verdicts and the score are computed here in float64.
// Names that are not defined here come from ../_shared.js, which stands before this text.

const CHOICES = 4;
const GAMES = 1000;
const PLOT = { height: 250, left: 52, right: 10, top: 8, bottom: 38 };
const MARKS = { right: "✓", alike: "≈", missed: "✗" };

/** Whole numbers below a bound, at random but the same for each game: Lehmer's generator, as in Python. */
function dice(game) {
  let state = game + 1;
  const draw = (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
  for (let i = 0; i < 3; i++) draw(1); // the first numbers of neighbouring games are much alike
  return draw;
}

function shuffled(things, draw) {
  const rest = [...things];
  for (let last = rest.length - 1; last > 0; last--) {
    const other = draw(last + 1);
    [rest[last], rest[other]] = [rest[other], rest[last]];
  }
  return rest;
}

/** Where two curves are furthest apart: the factor there and the place. */
function widest(a, b) {
  const factors = upTo(a.length).map((i) => Math.max(a[i] / b[i], b[i] / a[i]));
  const factor = Math.max(...factors);
  return { factor, at: factors.indexOf(factor) };
}

/** For each round of a game the bug whose curve is shown, and the four that are offered. */
function deal(game, count, alike) {
  const draw = dice(game);
  return shuffled(upTo(count), draw).map((bug) => {
    const others = shuffled(upTo(count).filter((other) => other !== bug), draw);
    const offered = others.slice(0, CHOICES - 1);
    if (offered.every((other) => alike(bug, other))) {
      offered[CHOICES - 2] = others.find((other) => !alike(bug, other)) ?? offered[CHOICES - 2];
    }
    return { bug, offered: shuffled([bug, ...offered], draw) };
  });
}

/** Curves on a logarithmic axis that is the same in every round. `lines` are {kind, losses}, the last on top. */
function drawChart({ svg, steps, lines, low, high, width }) {
  const { height, left, right, top, bottom } = PLOT;
  const last = steps.at(-1);
  const across = (step) => left + (step / last) * (width - left - right);
  const down = (loss) => top + (Math.log(high / loss) / Math.log(high / low)) * (height - top - bottom);
  const text = (x, y, content, anchor) => shape("text", { x, y, "text-anchor": anchor }, content);
  const powers = upTo(40).map((i) => i - 30).filter((i) => 10 ** i >= low && 10 ** i <= high);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.replaceChildren(
    ...powers.flatMap((power) => [
      shape("path", { class: "attnlab-game-grid", d: `M${left} ${down(10 ** power)}H${width - right}` }),
      text(left - 6, down(10 ** power) + 4, power > -5 ? String(10 ** power) : `10${raised(power)}`, "end"),
    ]),
    ...[0, 0.5, 1].map((part) =>
      text(across(part * last), height - bottom + 16, Math.round(part * last), part === 1 ? "end" : "middle"),
    ),
    text((left + width - right) / 2, height - 4, "loss (nats) over training steps", "middle"),
    ...lines.map(({ kind, losses }) =>
      shape("path", {
        class: `attnlab-game-line attnlab-game-${kind}`,
        d: `M${upTo(losses.length).map((i) => `${across(steps[i]).toFixed(1)} ${down(losses[i]).toFixed(1)}`).join("L")}`,
      }),
    ),
  );
}

/** The four answers. `paint` is given {names, marks}: while there are no marks, one can be chosen. */
function answerButtons({ stage, onAnswer }) {
  const buttons = upTo(CHOICES).map((place) => {
    const node = takesKeys(element("button", { type: "button", "data-place": place }));
    stage.life.listen(node, "click", () => onAnswer(place));
    return node;
  });
  const words = { right: ", this is it", alike: ", counts as well", missed: ", your answer, wrong" };
  return {
    node: element("div", { class: "attnlab-game-answers", role: "group", "aria-label": "Answers" }, ...buttons),
    paint({ names, marks }) {
      buttons.forEach((node, place) => {
        const mark = marks?.[place];
        node.replaceChildren(
          element("kbd", {}, place + 1),
          element("span", {}, names[place]),
          ...(mark ? [element("b", { "aria-hidden": "true" }, MARKS[mark]), element("span", { class: "attnlab-spoken" }, words[mark])] : []),
        );
        node.setAttribute("aria-disabled", String(Boolean(marks)));
        node.className = mark ? `attnlab-game-is-${mark}` : "";
      });
    },
  };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Which bug made this curve?", kind: "game" });
  const { life } = here;
  const names = model.get("names");
  const count = names.length;
  const steps = [...floats(model.get("steps"))];
  const flat = floats(model.get("curves"));
  const P = steps.length;
  const lossesOf = (bug) => flat.subarray((bug + 1) * P, (bug + 2) * P);
  const RIGHT = -1; // the right program's curve is the first
  const apart = (one, other) => widest(lossesOf(one), lossesOf(other));
  const near = (one, other) => apart(one, other).factor <= model.get("alike");
  const unseen = (bug) => near(bug, RIGHT); // no curve shows it
  const alike = (one, other) => near(one, other) || (unseen(one) && unseen(other)); // no curve tells them apart
  const [low, high] = [Math.min(...flat) / 1.3, Math.max(...flat) * 1.3];
  const factor = (number) => `a factor of ${number < 100 ? readable(number) : Math.round(number)}`;
  const loss = (number) => readable(number);

  let dealt, game;
  function play() {
    if (game !== model.get("game")) dealt = deal((game = model.get("game")), count, alike);
    const answers = model.get("answers");
    const round = model.get("round");
    const verdictOf = (bug, answer) => (answer === bug ? "right" : alike(bug, answer) ? "alike" : "missed");
    const verdicts = answers.map((answer, i) => verdictOf(dealt[i].bug, answer));
    return {
      round,
      answers,
      verdicts,
      score: verdicts.filter((verdict) => verdict !== "missed").length,
      over: round >= count,
      ...(round < count && { ...dealt[round], verdict: verdicts[round], answer: answers[round] }),
      verdictOf,
    };
  }

  // What a reader does. The focus goes where it goes on, once that is drawn.
  let goes;
  const went = (node) => here.root.matches(":focus-within") && (goes = node);
  function answer(place) {
    const { over, verdict, offered, answers } = play();
    if (over || verdict) return;
    went(next);
    here.set("answers", [...answers, offered[place]]);
  }
  function goOn() {
    if (!play().verdict) return;
    went(question);
    here.set("round", model.get("round") + 1);
  }
  function playAgain() {
    went(question);
    model.set("game", (model.get("game") + 1) % GAMES); // the three travel together
    model.set("answers", []);
    here.set("round", 0);
  }

  const question = element("p", { class: "attnlab-game-question", tabindex: -1 });
  const score = element("p", { class: "attnlab-game-score" });
  const legend = element("ul", { class: "attnlab-game-legend" });
  const svg = shape("svg", { role: "img" });
  const frame = element("div", { class: "attnlab-game-frame" }, svg);
  const answers = answerButtons({ stage: here, onAnswer: answer });
  const hint = element("p", { class: "attnlab-fact" }, "Press an answer, or its number on the keyboard.");
  const verdictBox = element("div", { class: "attnlab-game-verdict" });
  const next = button({ stage: here, label: "Next round", text: "Next round", onPress: goOn });
  const again = button({ stage: here, label: "Play again, in another order", text: "Play again, in another order", onPress: playAgain });
  const result = element("div", { class: "attnlab-game-result" });
  const table = valueTable({
    stage: here,
    summary: "Values as a table",
    content: () => (play().over ? allRounds() : bothCurves()),
  });
  function bothCurves() {
    const { bug, verdict, answer: said } = play();
    const third = verdict && said !== bug;
    return {
      caption: "Loss in nats at the noted steps",
      columns: ["Step", "right program", verdict ? names[bug] : "unknown bug", ...(third ? [names[said]] : [])],
      rows: steps.map((step, i) => [
        String(step),
        ...[RIGHT, bug, ...(third ? [said] : [])].map((which) => readable(lossesOf(which)[i], 3)),
      ]),
    };
  }
  function allRounds() {
    const { answers: given, verdicts } = play();
    return {
      caption: "Apart: the largest factor to the right program",
      columns: ["Bug", "your answer", "verdict", "apart", "property"],
      rows: given.map((said, i) => {
        const { bug } = dealt[i];
        const counts = { right: "✓ right", alike: "≈ counts", missed: "✗ missed" }[verdicts[i]];
        return [names[bug], names[said], counts, readable(apart(bug, RIGHT).factor, 3), model.get("found_by")[bug]];
      }),
    };
  }
  const board = element(
    "div",
    { class: "attnlab-game-board" },
    element("div", {}, legend, frame),
    element("div", {}, answers.node, hint, verdictBox, next),
  );
  here.add(takesKeys(element("div", {}, question, score, board, result, again)), table.node);

  const quoted = (bug) => `“${names[bug]}”`;
  const strong = (text) => element("strong", {}, text);
  const property = (bug) => ["The property ", strong(model.get("found_by")[bug]), " finds it in milliseconds, with nothing trained."];
  const noCurve = (bug) =>
    `No curve shows this one; only the property does: it is nowhere more than ${factor(apart(bug, RIGHT).factor)} from the right program.`;

  /** What is said of an answer: a heading and paragraphs. */
  function told({ bug, answer: said, verdict }) {
    const { factor: largest, at } = apart(bug, said);
    const heading = {
      right: `${MARKS.right} Right: ${quoted(bug)}.`,
      alike: `${MARKS.alike} This counts. It was ${quoted(bug)}.`,
      missed: `${MARKS.missed} No. It was ${quoted(bug)}.`,
    }[verdict];
    const neither = unseen(bug) && unseen(said);
    const furthest = Math.max(apart(bug, RIGHT).factor, apart(said, RIGHT).factor);
    const why = {
      right: "",
      alike: neither
        ? `No curve shows it, nor ${quoted(said)}: neither is ever more than ${factor(furthest)} from the right program. Only properties find them.`
        : `No curve tells it from ${quoted(said)}: the two are nowhere more than ${factor(largest)} apart.`,
      missed: `At step ${steps[at]}, ${quoted(said)} has a loss of ${loss(lossesOf(said)[at])}, this one of ${loss(lossesOf(bug)[at])}.`,
    }[verdict];
    const hidden = unseen(bug) && !(verdict === "alike" && neither); // else `why` has said it
    const texts = [why, hidden ? noCurve(bug) : "", model.get("gives_away")[bug]].filter(Boolean);
    return { heading, texts, property: property(bug) };
  }

  const legendLine = (kind, name, losses) =>
    element(
      "li",
      { "data-kind": kind },
      element("span", { class: `attnlab-game-sample attnlab-game-${kind}`, "aria-hidden": "true" }),
      `${name}: ${loss(losses.at(-1))} at the end`,
    );
  const alongside = (losses) =>
    [0, 1, 2, 3].map((k) => Math.round((k * (P - 1)) / 3)).map((i) => `${loss(losses[i])} at step ${steps[i]}`).join(", ");
  const inWords = (bug) => `The right program's loss is ${alongside(lossesOf(RIGHT))}. The unknown one's is ${alongside(lossesOf(bug))}.`;

  function drawRound({ round, bug, offered, verdict, answer: said, verdictOf }) {
    question.textContent = `Round ${round + 1} of ${count}: which bug made the solid curve?`;
    const other = verdict && said !== bug;
    const lines = [
      { kind: "bug", name: verdict ? names[bug] : "unknown bug", losses: lossesOf(bug) },
      { kind: "sane", name: "right program", losses: lossesOf(RIGHT) },
      ...(other ? [{ kind: "said", name: `your answer, ${quoted(said)}`, losses: lossesOf(said) }] : []),
    ];
    legend.replaceChildren(...lines.map(({ kind, name, losses }) => legendLine(kind, name, losses)));
    svg.setAttribute("aria-label", `Two loss curves on a logarithmic axis. ${inWords(bug)} All values stand in the table.`);
    drawChart({ svg, steps, lines, low, high, width: Math.max(200, Math.floor(frame.clientWidth)) });
    const markOf = (which) => {
      const mark = verdictOf(bug, which);
      return mark === "missed" && which !== said ? "" : mark;
    };
    answers.paint({ names: offered.map((which) => names[which]), marks: verdict && offered.map(markOf) });
    if (!verdict) return verdictBox.replaceChildren();
    const { heading, texts, property: last } = told({ bug, answer: said, verdict });
    verdictBox.dataset.verdict = verdict;
    verdictBox.replaceChildren(
      element("p", {}, strong(heading)),
      ...texts.map((text) => element("p", {}, text)),
      element("p", {}, ...last),
    );
    next.textContent = round + 1 < count ? "Next round" : "See the result";
    next.setAttribute("aria-label", next.textContent);
  }

  const missedBugs = ({ verdicts }) => dealt.filter((_, i) => verdicts[i] === "missed").map(({ bug }) => bug);
  function drawResult(now) {
    const missed = missedBugs(now);
    const hidden = upTo(count).filter(unseen);
    question.textContent = `The end: ${now.score} of ${count} count.`;
    result.replaceChildren(
      element("p", {}, missed.length ? "You missed:" : "You missed none."),
      element(
        "ul",
        {},
        ...missed.map((bug) =>
          element("li", { "data-bug": bug }, strong(names[bug]), ". ", ...(unseen(bug) ? ["No curve shows it. "] : []), model.get("gives_away")[bug], " Found by ", strong(model.get("found_by")[bug]), "."),
        ),
      ),
      ...(hidden.length
        ? [element("p", {}, strong(`No curve shows ${hidden.length} of the ${count}`), `: ${enumerated(hidden.map(quoted))}. They stay within ${factor(model.get("alike"))} of the right program. Any of their names counts for any other.`)]
        : []),
    );
  }

  function draw() {
    const now = play();
    const { over, verdict, verdicts } = now;
    for (const node of [board, next]) node.hidden = over;
    for (const node of [result, again]) node.hidden = !over;
    if (!over) next.hidden = verdictBox.hidden = !verdict;
    hint.hidden = Boolean(verdict);
    const marks = verdicts.map((each) => MARKS[each]).join("") + "·".repeat(count - verdicts.length);
    score.replaceChildren(
      `Score ${now.score} of ${verdicts.length} `,
      element("span", { class: "attnlab-game-marks", "aria-hidden": "true" }, marks),
    );
    Object.assign(here.root.dataset, { round: now.round, score: now.score });
    if (over) drawResult(now);
    else drawRound(now);
    table.refresh();
    goes?.focus({ preventScroll: true }); // a browser would put it in the middle, and its curves or answers out of sight
    goes?.scrollIntoView({ block: "nearest" });
    goes = undefined;
  }
  const redraw = life.onePerFrame(draw);
  function spoken() {
    const now = play();
    if (now.over) {
      const missed = missedBugs(now).map(quoted);
      return `${now.score} of ${count} count. You missed ${missed.length ? enumerated(missed) : "none"}.`;
    }
    if (!now.verdict) return `Round ${now.round + 1} of ${count}. ${inWords(now.bug)}`;
    const { heading, texts, property: last } = told(now);
    return [heading.slice(2), ...texts, last.map((part) => part.textContent ?? part).join("")].join(" ");
  }
  life.watch(model, ["game", "round", "answers"], () => {
    redraw();
    here.announce(spoken);
  });
  life.onResize(frame, redraw);
  life.listen(here.root, "keydown", (event) => {
    if (event.repeat && event.key === "Enter") event.preventDefault(); // a key held down would run through the rounds
    if (event.altKey || event.ctrlKey || event.metaKey || event.repeat) return;
    const place = ["1", "2", "3", "4"].indexOf(event.key);
    if (place < 0) return;
    event.preventDefault();
    event.stopPropagation();
    answer(place);
  });
  draw();
  return here.remove;
}

export default { render };

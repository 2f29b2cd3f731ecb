// A quiz: the folds of each question become radio buttons, and a line below says how many first answers were right.
// Nothing is stored.
const make = (name, properties, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};
const letters = "abcdefgh";

const buildQuestion = (block, number, count, report) => {
  const name = `quiz-${number}`;
  const [first, ...more] = block.querySelector(".quiz-text").children;
  first.querySelector("strong")?.remove();
  const legend = make("legend", {},
    make("span", { className: "quiz-number", textContent: `Question ${number} of ${count}. ` }), ...first.childNodes);
  const choices = [...block.querySelectorAll(".quiz-option")].map((fold, place) => {
    const id = `${name}-${letters[place]}`;
    const input = make("input", { type: "radio", name, id });
    const label = make("label", { htmlFor: id });
    label.append(...fold.querySelector("summary").childNodes);
    // A formula alone is no name to everybody: its letters, in their order, are.
    const words = label.cloneNode(true);
    for (const formula of words.querySelectorAll("math")) formula.remove();
    if (!words.textContent.trim()) input.setAttribute("aria-label", label.textContent.trim());
    const why = fold.querySelector(".quiz-why");
    why.id = `${id}-why`;
    why.hidden = true;
    const row = make("div", { className: "quiz-choice" }, input, label, why);
    return { input, why, row, right: fold.dataset.verdict === "right" };
  });
  const button = make("button", { type: "button", className: "quiz-check", textContent: "Check" });
  const field = make("fieldset", { tabIndex: -1 }, legend, ...more, ...choices.map((choice) => choice.row), button);
  block.replaceChildren(field);

  const state = { answered: false, right: false, field };
  const show = (answered) => {
    const chosen = choices.find((choice) => choice.input.checked);
    state.answered = answered;
    state.right = answered && chosen.right;
    for (const { input, why, row, right } of choices) {
      if (!answered) input.checked = false;
      input.disabled = answered && !input.checked;
      why.hidden = !answered;
      if (answered) input.setAttribute("aria-describedby", why.id);
      else input.removeAttribute("aria-describedby");
      row.classList.toggle("is-right", answered && right);
      row.classList.toggle("is-wrong", answered && !right && input.checked);
    }
    button.textContent = answered ? "Checked" : "Check";
    button.setAttribute("aria-disabled", String(answered));
  };
  button.addEventListener("click", () => {
    if (state.answered) return;
    if (!choices.some((choice) => choice.input.checked)) {
      report(`Choose an option of question ${number} first.`);
      return;
    }
    show(true);
    report(`Question ${number}: ${state.right ? "right" : "wrong"}.`);
  });
  state.forget = () => show(false);
  return state;
};

for (const quiz of document.querySelectorAll(".quiz")) {
  const blocks = [...quiz.querySelectorAll(".quiz-question")];
  const score = make("p", { className: "quiz-score" });
  score.setAttribute("role", "status");
  const again = make("button", { type: "button", className: "quiz-again", textContent: "Try again", hidden: true });
  const report = (text) => {
    const answered = states.filter((state) => state.answered).length;
    const right = states.filter((state) => state.right).length;
    const sum = answered === states.length ? `Your score: ${right} of ${answered}.` : `${right} right, ${answered} answered.`;
    score.textContent = answered ? `${text} ${sum}` : text;
    again.hidden = !answered;
  };
  const states = blocks.map((block, place) => buildQuestion(block, place + 1, blocks.length, report));
  again.addEventListener("click", () => {
    for (const state of states) state.forget();
    report("");
    states[0].field.focus();
  });
  const advice = quiz.querySelector(".quiz-advice p");
  if (advice) advice.textContent = "Choose an option and check it. Every option then says why it is right or wrong.";
  quiz.querySelector(".quiz-answers").before(make("div", { className: "quiz-end" }, score, again));
}

// The controls and the places of what is shown, in their order.

const EXAMPLES = [
  "Wednesday, July 4, 1984",
  "September 16, 1981",
  "March 8, 6:22 PM",
  "1.75 Swiss francs",
  "13,065.21 US dollars",
  "five thousand and seventy-nine",
  "thirty-nine thousand, seven hundred and seventy-eight",
  "September 31, 2024",
  "Blursday, July 4, 1984",
];
const LOOKS = [
  ["cross", "Cross-attention: the phrase"],
  ["self", "Decoder self-attention: earlier words"],
  ["encoder", "Encoder self-attention: the phrase"],
];

/** The parts of the page that a reader uses and sees, put together. */
function layOut({ here, entries, act }) {
  const trait = (control, name) => ((control.input.dataset.trait = name), control);
  const id = here.nextId();
  const input = takesKeys(
    element("input", { type: "text", id, autocomplete: "off", spellcheck: "false", autocapitalize: "off" }),
  );
  input.dataset.trait = "text";
  here.life.listen(input, "input", () => act.type(input.value));
  here.life.listen(input, "keydown", (event) => event.stopPropagation()); // letters are no commands of a notebook
  const examples = trait(
    choice({
      stage: here,
      label: "Examples",
      options: [["", "choose one"], ...EXAMPLES.map((text) => [text, text])],
      onChange: (text) => text && act.type(text, true),
    }),
    "example",
  );
  const language = trait(
    choice({ stage: here, label: "Into", options: entries.map(({ name, label }) => [name, label]), onChange: act.open }),
    "language",
  );
  const part = trait(choice({ stage: here, label: "Take away", options: [["", "nothing"]], onChange: act.without }), "part");
  const look = trait(choice({ stage: here, label: "Show", options: LOOKS, onChange: act.look }), "look");
  const head = trait(choice({ stage: here, label: "Arcs of", options: [], onChange: act.head }), "head");
  const beams = trait(
    slider({ stage: here, label: "Beams", min: 1, max: 8, onInput: act.beams }),
    "beams",
  );
  const step = (by, label, text) => button({ stage: here, label, text, onPress: () => act.step(by) });
  const controls = { back: step(-1, "Step back", "◀"), on: step(1, "Step forward", "▶") };
  controls.play = button({ stage: here, label: "Write again", text: "Write again", onPress: act.play });
  controls.load = button({ stage: here, label: "Load the translator", text: "Load the translator", onPress: act.load });
  const query = {
    back: button({ stage: here, label: "Previous word that looks", text: "▲", onPress: () => act.query(-1) }),
    on: button({ stage: here, label: "Next word that looks", text: "▼", onPress: () => act.query(1) }),
    title: element("p", { class: "attnlab-title" }),
  };
  const words = wordRow({ stage: here, label: "The translation, word by word", choose: act.word });
  const drawn = arcs({ stage: here, choose: act.chooseQuery });
  const table = headTable({ stage: here, choose: act.head });
  const list = element("ol", { class: "attnlab-bars", "aria-label": "The likeliest next words" });
  const fact = (name) => element("p", { class: "attnlab-fact", "data-fact": name });
  const facts = Object.fromEntries(
    ["notes", "trained", "next", "part", "effect", "whole", "greedy", "arcs"].map((name) => [name, fact(name)]),
  );
  facts.notes.setAttribute("role", "status");
  const candidates = element("ol", { class: "attnlab-candidates" });
  const said = element("p", { class: "attnlab-said" });
  const heading = (text) => element("p", { class: "attnlab-heading" }, text);
  const box = (name, ...nodes) => element("div", { class: `attnlab-${name}` }, ...nodes);
  const start = box("start", element("p", {}), controls.load);
  const field = box("field attnlab-typed", element("label", { for: id }, "English phrase"), input);
  const body = box(
    "body",
    box("controls", field, examples.node),
    facts.notes,
    box("writing", words.node, box("buttons", controls.back, controls.on, controls.play)),
    box(
      "pair",
      element("div", {}, heading("Likeliest next words"), facts.next, list),
      element(
        "div",
        {},
        box("controls", part.node),
        facts.part,
        facts.effect,
        facts.whole,
      ),
    ),
    heading("Where it looks"),
    box("controls", look.node, head.node),
    box("chooser", query.title, query.back, query.on),
    box("pair attnlab-looks", element("div", {}, drawn.node, facts.arcs), table.node),
    heading("Greedy and beam, side by side"),
    box("pair", element("div", {}, heading("Greedy"), said, facts.greedy), element("div", {}, beams.node, candidates)),
    facts.trained,
  );
  body.tabIndex = -1; // takes the focus when the button above it goes
  if (entries.length < 2) language.node.hidden = true;
  here.add(box("controls", language.node), start, body);
  return { input, examples, language, part, look, head, beams, controls, query, words, drawn, table, list, facts, candidates, said, start, body };
}

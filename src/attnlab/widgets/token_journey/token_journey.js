// Token journey: the stations of the machine, and what each does to the vector of one token.
// Names not defined here come from ../_shared.js and the other modules of this folder.

const LIKELIEST = 4;
const SIDES = ["Source", "Target"];

function stationName({ side, kind, layer, part }) {
  const inLayer = `${STACKS[side]} layer ${layer}, `;
  return {
    embed: `${SIDES[side].toLowerCase()}: embedding, times √d_model`,
    position: `${SIDES[side].toLowerCase()}: plus position`,
    norm: `${inLayer}norm of ${PARTS[part]}`,
    say: `${inLayer}${PARTS[part]}`,
    sum: `${inLayer}sum around ${PARTS[part]}`,
    last: side ? "last norm of the decoder" : "last norm of the encoder: the memory",
    logits: "logits, for each token that may come next",
    softmax: "softmax: the next token",
  }[kind];
}

/** What a station does. */
function stationText({ side, kind, part }, { pre, i, isPadded }) {
  const asked = {
    self: side
      ? "The token asks the tokens read so far, itself among them. Later ones are hidden."
      : `The token asks all source tokens, those after it, too.${isPadded ? " Padding is hidden." : ""}`,
    cross: "The target asks and the memory is asked: keys and values are the encoder’s last vectors.",
    feed: "Two matrices with a bend between them. No other token is asked: each goes through by itself.",
  };
  const normed = "Shifted and scaled to mean 0 and variance 1, then stretched as it was learned.";
  return {
    embed: "The token’s row of the embedding table, stretched. It is the same wherever the token stands.",
    position: `The vector of place ${i + 1} is added, whatever token stands there.`,
    norm: pre ? `${normed} Only the next box reads this; the stream itself goes around.` : `${normed} So the stream goes on.`,
    say: asked[part],
    sum: "What the box said is added to the stream that went around it.",
    last: side ? normed : `${normed} Every cross-attention of the decoder reads it.`,
    logits: "The dot product with each row of the embedding table: the same table as at the start.",
    softmax: "Shares that sum to 1. In use the likeliest token is written and read next.",
  }[kind];
}

const degrees = (a, b) => (Math.acos(clamp(dot(a, b) / (lengthOf(a) * lengthOf(b) || 1), -1, 1)) * 180) / Math.PI;

/** Each head's weights over the keys, hidden keys hatched and without a number. */
function weightTable() {
  const caption = element("caption", {});
  const [head, body] = [element("thead", {}), element("tbody", {})];
  const node = element("table", { class: "attnlab-looks" }, caption, head, body);
  return {
    node,
    draw({ text, keys, marked, weights, sees }) {
      caption.textContent = text;
      head.replaceChildren(
        element(
          "tr",
          {},
          element("th", { scope: "col" }, "head"),
          ...keys.map((key, j) =>
            element("th", { scope: "col", class: `${sees[j] ? "" : "attnlab-unseen"} ${j === marked ? "attnlab-own" : ""}` }, key),
          ),
        ),
      );
      body.replaceChildren(
        ...weights.map((row, h) =>
          element(
            "tr",
            {},
            element("th", { scope: "row" }, h + 1),
            ...row.map((weight, j) => {
              if (!sees[j]) return element("td", { class: "attnlab-unseen", "data-hidden": "" }, element("span", { class: "attnlab-spoken" }, "hidden"));
              const cell = element("td", { "data-weight": weight }, weight.toFixed(2).replace(/^0/, ""));
              cell.style.setProperty("--share", weight);
              cell.classList.toggle("attnlab-on-dark", weight >= LIGHT_INK_FROM);
              return cell;
            }),
          ),
        ),
      );
    },
  };
}

function render({ model, el }) {
  const here = stage({ model, el, name: "Journey of a token", kind: "journey" });
  const { life } = here;
  const run = runOf(model);
  const words = model.get("words");
  const shown = run.ids.map((side) => side.map((id) => words[id]));
  const isPadded = run.ids[0].includes(run.pad);
  const followed = () => [model.get("source_token"), model.get("target_token")];
  const outline = [...route(run, 0, 0), ...route(run, 1, 0)];
  const names = outline.map(stationName);
  const sides = outline.map(({ side }) => side);
  const routes = []; // of the followed token of each side
  let now, i;

  function compute() {
    followed().forEach((token, side) => {
      if (routes[side]?.token !== token) routes[side] = { token, stations: route(run, side, token) };
    });
    now = routes.flatMap(({ stations }) => stations)[model.get("station")];
    i = followed()[now.side];
  }
  const go = (station) => here.set("station", clamp(station, 0, names.length - 1));
  const rows = SIDES.map((name, side) =>
    tokenRow({
      stage: here,
      label: side ? "Target, as read" : name,
      words: shown[side],
      choose(at) {
        here.set(side ? "target_token" : "source_token", at);
        if (now.side !== side) go(sides.indexOf(side)); // a token of the other side starts its way
      },
    }),
  );
  const back = button({ stage: here, label: "Station before", text: "◀", onPress: () => go(model.get("station") - 1) });
  const next = button({ stage: here, label: "Next station", text: "▶", onPress: () => go(model.get("station") + 1) });
  const stationSlider = slider({
    stage: here,
    label: "Station",
    min: 1,
    max: names.length,
    show: (value) => `${value} of ${names.length}`,
    onInput: (value) => go(value - 1),
  });
  stationSlider.input.dataset.trait = "station";
  const title = element("p", { class: "attnlab-journey-title" });
  const what = element("p", { class: "attnlab-journey-what" });
  const facts = element("dl", { class: "attnlab-journey-facts" });
  const looks = weightTable();
  const saidTitle = element("p", { class: "attnlab-heading" });
  const bars = element("ol", { class: "attnlab-bars", "aria-label": "Likeliest next tokens" });
  const said = element("div", { class: "attnlab-said" }, saidTitle, bars);
  const stripTitle = element("p", { class: "attnlab-heading" });
  const strip = element("ol", { class: "attnlab-strip", "aria-label": "The vector" });
  const drawn = machine({ stage: here, stations: outline, names, choose: go });
  const table = valueTable({ stage: here, summary: "This station as a table", content: tableOf });
  here.add(
    element("div", { class: "attnlab-sides" }, ...rows.map(({ node }) => node)),
    element("div", { class: "attnlab-controls attnlab-stepper" }, back, stationSlider.node, next),
    element(
      "div",
      { class: "attnlab-journey-columns" },
      element("div", { class: "attnlab-panel" }, title, what, facts, looks.node, said, stripTitle, strip),
      drawn.node,
    ),
    table.node,
  );

  const token = () => `${SIDES[now.side].toLowerCase()} token ${i + 1}, “${shown[now.side][i]}”`;
  const keysOf = () => shown[now.part === "cross" ? 0 : now.side];
  const isVocabulary = () => now.kind === "logits" || now.kind === "softmax";
  const bestOf = (row) => row.indexOf(Math.max(...row));

  function tableOf() {
    const { cameIn, goesOut, weights, sees } = now;
    const before = cameIn?.length === goesOut.length && cameIn;
    const number = (value) => (Number.isFinite(value) ? fixed(value, 4) : "");
    const kinds = isVocabulary() ? words : goesOut.map((_, k) => `number ${k + 1}`);
    return {
      caption: `Of ${token()}: ${names[model.get("station")]}.`,
      columns: ["What", "came in", "goes out", "difference"],
      rows: [
        ...kinds.map((name, k) => [name, number(before?.[k]), number(goesOut[k]), number(isVocabulary() || goesOut[k] - before?.[k])]),
        ...(weights ?? []).flatMap((row, h) =>
          row.map((weight, j) => [`weight of head ${h + 1} on ${keysOf()[j]}, token ${j + 1}`, "", sees[j] ? number(weight) : "hidden", ""]),
        ),
        ...(now.said ?? []).map((share, word) => [`probability of ${words[word]}`, "", number(share), ""]),
      ],
    };
  }

  /** Shape, parameters and lengths, as pairs of a name and a text. */
  function factsOf() {
    const { kind, side, part, cameIn, goesOut, weights, added } = now;
    const n = shown[side].length;
    const axis = side ? "T" : "S";
    const shapeOf = isVocabulary() ? `(${axis}, V) = (${n}, ${words.length})` : `(${axis}, d_model) = (${n}, ${run.width})`;
    const perHead = weights ? `; weights (H, ${axis}, ${part === "cross" ? "S" : axis}) = (${run.heads}, ${n}, ${keysOf().length})` : "";
    const owner = { say: part === "feed" ? part : "attention", last: "norm" }[kind] ?? kind;
    const notes = { embed: ", shared by source, target and output", logits: ": the table is counted at the embedding" };
    const long = (x) => lengthOf(x).toFixed(2);
    const lengths = {
      embed: () => `${long(goesOut)}: a row ${(lengthOf(goesOut) / Math.sqrt(run.width)).toFixed(2)} long, times √${run.width}`,
      logits: () => `${long(cameIn)} in; out come ${words.length} logits`,
      softmax: () => `${words.length}, which sum to 1`,
      say: () => `${long(cameIn)} in, ${long(goesOut)} out`,
    };
    const turned = () => `${long(cameIn)} in, ${long(goesOut)} out, turned by ${degrees(cameIn, goesOut).toFixed(0)}°`;
    return [
      ["Shape", `${shapeOf}${perHead}. This is row ${i + 1}.`],
      ["Parameters", `${(model.get("counts")[owner] ?? 0).toLocaleString("en")}${notes[kind] ?? ""}`],
      [kind === "softmax" ? "Numbers" : "Length", `${(lengths[kind] ?? turned)()}${added ? `. What is added is ${long(added)} long` : ""}`],
    ];
  }

  function drawStrip() {
    const { goesOut } = now;
    const largest = Math.max(...goesOut.map(Math.abs)) || 1;
    stripTitle.textContent = isVocabulary() ? `${words.length} numbers, one for each token` : `The vector that goes out, ${run.width} numbers`;
    strip.replaceChildren(
      ...goesOut.map((value, k) => {
        const name = isVocabulary() ? [element("b", {}, words[k]), " "] : [];
        const cell = element("li", { "data-number": value }, ...name, fixed(value, now.kind === "softmax" ? 2 : 1));
        cell.style.setProperty("--share", `${(45 * Math.abs(value)) / largest}%`);
        cell.classList.toggle("attnlab-negative", value < 0);
        return cell;
      }),
    );
  }

  function drawSaid() {
    said.hidden = !now.said;
    if (said.hidden) return;
    saidTitle.textContent = isVocabulary() ? "The next token" : "If the decoder ended here, the next token would be";
    const order = upTo(words.length).sort((a, b) => now.said[b] - now.said[a]).slice(0, LIKELIEST);
    bars.replaceChildren(
      ...order.map((word, place) => {
        const line = weightBar(words[word], now.said[word], place === 0);
        Object.assign(line.dataset, { word, probability: now.said[word] });
        return line;
      }),
    );
  }

  function draw() {
    const station = model.get("station");
    rows.forEach((row, side) => row.draw(followed()[side], side === now.side));
    stationSlider.set(station + 1);
    stationSlider.input.setAttribute("aria-valuetext", `${station + 1} of ${names.length}: ${names[station]}`);
    back.setAttribute("aria-disabled", station === 0); // not `disabled`, which would take the focus away
    next.setAttribute("aria-disabled", station === names.length - 1);
    title.textContent = names[station][0].toUpperCase() + names[station].slice(1);
    what.textContent = `For ${token()}. ${stationText(now, { pre: run.pre, i, isPadded })}`;
    facts.replaceChildren(...factsOf().flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
    looks.node.hidden = !now.weights;
    if (now.weights) {
      const text = `Weights: whom ${token()}, looks at. Underlined: the followed token.`;
      looks.draw({ text, keys: keysOf(), marked: followed()[now.part === "cross" ? 0 : now.side], ...now });
    }
    drawSaid();
    drawStrip();
    drawn.draw(station);
    table.refresh();
  }
  const redraw = life.onePerFrame(draw);
  const inSentences = () => {
    const { weights, said: shares } = now;
    const most = (weights ?? []).map((row, h) => `Head ${h + 1} looks most at ${keysOf()[bestOf(row)]}, ${Math.max(...row).toFixed(2)}.`);
    const word = shares && bestOf(shares);
    return [
      `Station ${model.get("station") + 1} of ${names.length}, ${names[model.get("station")]}, for ${token()}.`,
      ...most,
      ...factsOf().slice(2).map(([name, text]) => `${name}: ${text}.`),
      ...(shares ? [`Likeliest next: ${words[word]}, ${shares[word].toFixed(2)}.`] : []),
    ].join(" ");
  };
  life.watch(model, ["source_token", "target_token", "station"], () => {
    compute();
    redraw();
    here.announce(inSentences);
  });
  const placeWays = life.onePerFrame(drawn.layOut);
  life.onResize(drawn.node, placeWays);
  compute();
  draw();
  return here.remove;
}

export default { render };

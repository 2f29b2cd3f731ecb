// The drawing of the machine, a box for each station, and the rows of tokens.

const BOXES = { embed: "embed × √d", position: "+ position", norm: "norm", last: "norm", logits: "logits", softmax: "softmax", sum: "+" };

/** Where a key leads along radio buttons, or nothing for another key. */
function moveBy(event, at, count) {
  const moves = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: count - 1, " ": at };
  if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return undefined;
  event.preventDefault();
  return clamp(moves[event.key], 0, count - 1);
}

/** Radio buttons that one listener each for pointer and keys serves; `choose(place)` is told. */
function radios({ stage, box, buttons, choose }) {
  const place = (target) => buttons.indexOf(target.closest("[role=radio]"));
  stage.life.listen(box, "click", (event) => place(event.target) >= 0 && choose(place(event.target)));
  stage.life.listen(box, "keydown", (event) => {
    const to = moveBy(event, place(event.target), buttons.length);
    if (to === undefined) return;
    choose(to);
    buttons[to].focus();
  });
  return (chosen) =>
    buttons.forEach((button, at) => {
      button.setAttribute("aria-checked", String(at === chosen));
      button.tabIndex = at === chosen ? 0 : -1;
    });
}

/** The boxes of one side: a row for each sublayer, a frame for each layer. */
function column({ title, stations, boxes, side }) {
  const node = element("div", { class: "attnlab-column" }, element("p", {}, title));
  let [frame, row, before] = [node, undefined, {}];
  stations.forEach((station, number) => {
    if (station.side !== side) return;
    const isNewLayer = station.layer !== before.layer;
    if (isNewLayer) {
      const name = element("small", { "aria-hidden": "true" }, `layer ${station.layer}`);
      frame = station.layer ? element("div", { class: "attnlab-layer" }, name) : node;
      if (station.layer) node.append(frame);
    }
    if (isNewLayer || !station.layer || station.part !== before.part) {
      row = element("div", { class: "attnlab-boxes" });
      frame.append(row);
    }
    row.append(boxes[number]);
    before = station;
  });
  return node;
}

/** A radio button for each station. `names` are what the ear gets; `choose(number)` is told. */
function machine({ stage, stations, names, choose }) {
  const boxes = stations.map(({ kind, part }, number) => {
    const text = kind === "say" ? part : BOXES[kind];
    return takesKeys(
      element(
        "div",
        { class: `attnlab-stop attnlab-stop-${kind}`, role: "radio", "aria-label": `${text}: ${names[number]}`, "data-stop": number },
        text,
      ),
    );
  });
  const memory = element("p", { class: "attnlab-memory-name", "aria-hidden": "true" }, "memory");
  const columns = STACKS.map((_, side) => column({ title: ["Encoder", "Decoder"][side], stations, boxes, side }));
  columns[0].append(memory);
  const way = shape("svg", { class: "attnlab-way", "aria-hidden": "true" });
  const node = element("div", { class: "attnlab-machine", role: "radiogroup", "aria-label": "Stations" }, way, ...columns);
  const mark = radios({ stage, box: node, buttons: boxes, choose });

  /** The lines from the memory to each cross-attention, where the boxes stand now. */
  function layOut() {
    const frame = node.getBoundingClientRect();
    const side = (box, edge) => {
      const { top, height, [edge]: x } = box.getBoundingClientRect();
      return [x - frame.left, top + height / 2 - frame.top];
    };
    const [from, y] = side(memory, "right");
    const gutter = columns[1].getBoundingClientRect().left - frame.left - 12;
    const asked = boxes.filter((_, number) => stations[number].part === "cross" && stations[number].kind === "say");
    way.replaceChildren(
      ...asked.map((box) => {
        const [to, height] = side(box.parentNode, "left");
        return shape("path", { d: `M${from} ${y}H${gutter}V${height}H${to - 1}m-4 -4l4 4l-4 4` });
      }),
    );
  }
  return {
    node,
    layOut,
    draw(chosen) {
      mark(chosen);
      const { side, part, kind } = stations[chosen];
      boxes.forEach((box, number) => box.classList.toggle("attnlab-been", number < chosen && stations[number].side === side));
      node.classList.toggle("attnlab-crossing", part === "cross" && kind === "say");
    },
  };
}

/** Tokens to choose from, one of them followed; `choose(place)` is told. */
function tokenRow({ stage, label, words, choose }) {
  const id = stage.nextId();
  const buttons = words.map((word, at) =>
    takesKeys(element("div", { class: "attnlab-token", role: "radio", "aria-label": `${word}, token ${at + 1}` }, word)),
  );
  const row = element("div", { class: "attnlab-tokens", role: "radiogroup", "aria-labelledby": id }, ...buttons);
  const node = element("div", { class: "attnlab-side" }, element("span", { id }, label), row);
  const mark = radios({ stage, box: row, buttons, choose });
  return {
    node,
    draw(chosen, isUnderWay) {
      mark(chosen);
      node.classList.toggle("attnlab-under-way", isUnderWay);
    },
  };
}

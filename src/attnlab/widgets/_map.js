// The part that widgets with a matrix or a map share. It stands after _shared.js, before the widget's own module.

/**
 * A matrix, or a map of measured numbers: one radio button a cell, chosen by pointer, by drag, and by the arrow keys.
 *
 * `rows` (from the top) and `columns` are {at, text}: `at` is the index that `chosen` and `onChoose` speak of, and
 * `line: true` draws a line after a column. `axes` are the names of both, as in ["queries ↓", "keys →"].
 * `draw(cell)` asks `cell(row, column)` of each for {lines, share, kind, name}: what stands in it, how strong its
 * colour is (0 to 1), its class `attnlab-map-KIND` if any, and its name for the ear.
 */
function measuredMap({ stage, label, axes, rows, columns, chosen, onChoose }) {
  const box = element("div", { class: "attnlab-map", role: "radiogroup", "aria-label": label });
  box.style.setProperty("--columns", columns.length);
  const head = (kind, text = "") =>
    element("span", { class: `attnlab-map-head attnlab-map-${kind}`, "aria-hidden": "true" }, text);
  const cells = rows.map((row) =>
    columns.map((column) => takesKeys(element("div", { role: "radio", "data-row": row.at, "data-column": column.at }))),
  );
  box.append(element("div", { class: "attnlab-map-axes" }, head("down", axes[0]), head("across", axes[1])));
  box.append(head("down"), ...columns.map(({ text }) => head("across", text)));
  rows.forEach(({ text }, i) => box.append(head("down", text), ...cells[i]));
  const spot = () => [rows, columns].map((axis, i) => axis.findIndex(({ at }) => at === chosen()[i]));

  const choose = (node) => {
    const cell = node?.closest("[data-row]");
    if (cell && box.contains(cell)) onChoose(Number(cell.dataset.row), Number(cell.dataset.column));
  };
  // A screen reader's click may have no place; a finger that moves keeps the cell that it began on as its target.
  stage.life.listen(box, "click", (event) => choose(event.target));
  stage.life.listen(box, "pointermove", ({ buttons, clientX, clientY }) => {
    if (buttons === 1) choose(document.elementFromPoint(clientX, clientY));
  });
  stage.life.listen(box, "keydown", (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [];
    const to = { Home: 0, End: columns.length - 1 }[event.key];
    if ((down ?? to) === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const [i, j] = spot();
    const [row, column] = [clamp(i + (down ?? 0), 0, rows.length - 1), clamp(to ?? j + right, 0, columns.length - 1)];
    onChoose(rows[row].at, columns[column].at);
    cells[row][column].focus();
  });
  return {
    node: box,
    draw(cell) {
      const [i, j] = spot();
      cells.forEach((line, row) =>
        line.forEach((node, column) => {
          const { lines, share, kind, name } = cell(rows[row].at, columns[column].at);
          const isChosen = row === i && column === j;
          node.className = "attnlab-map-cell";
          if (kind) node.classList.add(`attnlab-map-${kind}`);
          node.classList.toggle("attnlab-map-full", share >= LIGHT_INK_FROM);
          node.classList.toggle("attnlab-map-line", Boolean(columns[column].line));
          node.style.setProperty("--share", `${100 * share}%`);
          node.replaceChildren(...lines.map((text) => element("span", {}, text)));
          fill(node, { "aria-checked": String(isChosen), "aria-label": name, tabindex: isChosen ? 0 : -1 }, []);
        }),
      );
    },
  };
}

// What is wider than its box scrolls. The keyboard must reach such a box, and only such a box.
const boxes = [...document.querySelectorAll(".scroll, .highlight > pre, .output")];
const reach = () => {
  const wide = boxes.map((box) => box.scrollWidth > box.clientWidth + 1); // all are read before one is changed
  boxes.forEach((box, number) => {
    if (wide[number]) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${box.dataset.name ?? (box.matches(".table-box") ? "Table" : "Code")}, wider than the page`);
    } else if (box.hasAttribute("tabindex")) {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  });
};
addEventListener("load", reach);
addEventListener("resize", reach);
addEventListener("toggle", reach, true);
document.fonts.ready.then(reach);

// Chromium reserves for a root the width that its sign would have if it were very tall, which leaves a gap behind the
// root. The gap is measured and taken back; where a browser leaves none, nothing happens.
const close = () => {
  const gaps = []; // all are read before one is closed
  for (const root of document.querySelectorAll("msqrt")) {
    const size = parseFloat(getComputedStyle(root).fontSize);
    const content = root.lastElementChild;
    if (!content || !size || !root.getClientRects().length) continue;
    const gap = root.getBoundingClientRect().right - content.getBoundingClientRect().right;
    if (gap > size / 10) gaps.push([root, gap / size]);
  }
  for (const [root, gap] of gaps) root.style.marginRight = `${(-gap).toFixed(3)}em`;
};
document.fonts.ready.then(close);
addEventListener("toggle", close, true);
addEventListener("click", ({ target }) => target.closest?.(".quiz-check") && close()); // a quiz shows its answers

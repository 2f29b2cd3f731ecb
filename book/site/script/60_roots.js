// Chromium reserves for a root the width that its sign would have if it were very tall, which leaves a gap behind the
// root. The gap is measured and taken back; where a browser leaves none, nothing happens.
const close = () => {
  for (const root of document.querySelectorAll("msqrt")) {
    const size = parseFloat(getComputedStyle(root).fontSize);
    const content = root.lastElementChild;
    if (!content || !size || !root.getClientRects().length) continue;
    const gap = root.getBoundingClientRect().right - content.getBoundingClientRect().right;
    if (gap > size / 10) root.style.marginRight = `${(-gap / size).toFixed(3)}em`;
  }
};
document.fonts.ready.then(close);
addEventListener("toggle", close, true);

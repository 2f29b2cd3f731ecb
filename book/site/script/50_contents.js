// The list beside the text marks the section that is being read.
const links = new Map();
for (const link of document.querySelectorAll(".contents a[href^='#']")) {
  const section = link.hash.length > 1 && document.getElementById(decodeURIComponent(link.hash.slice(1)));
  if (section) links.set(section, link);
}
const mark = () => {
  let current = null;
  for (const [section, link] of links) {
    if (section.getBoundingClientRect().top < 140) current = link;
  }
  for (const link of links.values()) {
    if (link === current) link.setAttribute("aria-current", "location");
    else link.removeAttribute("aria-current");
  }
};
if (links.size) {
  let waiting = false;
  addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mark(); });
  }, { passive: true });
  mark();
}
// The chapter that is open is in sight in the list of chapters.
const chapters = document.querySelector(".chapters");
const open = chapters.querySelector("[aria-current]");
if (open) chapters.scrollTop = Math.max(0, open.offsetTop - chapters.clientHeight / 2);

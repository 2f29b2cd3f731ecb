// What a reader has ticked as done is kept in this browser alone. The lists of chapters show it.
const kept = () => {
  try {
    return new Set(JSON.parse(localStorage.getItem("done") ?? "[]"));
  } catch {
    return new Set();  // no storage, or something else wrote there
  }
};
const keep = (pages) => {
  try {
    if (pages.size) localStorage.setItem("done", JSON.stringify([...pages]));
    else localStorage.removeItem("done");
    return true;
  } catch {
    return false;
  }
};
const root = new URL(document.documentElement.dataset.content_root, location.href).pathname;
const page = document.body.dataset.page;
const tick = document.querySelector(".done input");
const forget = document.querySelector(".forget");
const show = () => {
  const done = kept();
  for (const link of document.querySelectorAll(".chapters a[href], main table a[href]")) {
    link.toggleAttribute("data-done", done.has(link.pathname.slice(root.length).replace(/\.html$/, "")));
  }
  if (tick) tick.checked = done.has(page);
  if (forget) forget.querySelector("button").disabled = !done.size;
};
if (tick) {
  tick.closest(".done").hidden = false;
  tick.addEventListener("change", () => {
    const done = kept();
    if (tick.checked) done.add(page);
    else done.delete(page);
    if (!keep(done)) tick.closest(".done").querySelector("small").textContent = "This browser keeps nothing for this site.";
    show();
  });
}
if (forget) {
  forget.hidden = false;
  forget.querySelector("button").addEventListener("click", () => {
    keep(new Set());
    show();
    forget.querySelector("[role=status]").textContent = "Forgotten.";
  });
}
addEventListener("storage", show);
show();

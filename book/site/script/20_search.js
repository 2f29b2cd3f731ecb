// "/" or Ctrl+K goes to the search, unless somebody is typing.
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  const slash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
  const control = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
  if (!slash && !control) return;
  const field = [...document.querySelectorAll("input[name=q]")].find((input) => input.checkVisibility());
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});
// Sphinx looks for the words in the first field of the page.
const asked = new URLSearchParams(location.search).get("q");
if (asked && document.querySelector("#search-results")) {
  for (const input of document.querySelectorAll("input[name=q]")) input.value = asked;
}
// What a solution page folds is not quoted below a result, nor what stands around the text of a page.
if (typeof Search === "object") {
  const textOf = Search.htmlToText;
  Search.htmlToText = (page, anchor) => {
    const copy = new DOMParser().parseFromString(page, "text/html");
    for (const fold of copy.querySelectorAll(".solution-fold, .page-head, .contents-fold, .done, .turn")) fold.remove();
    return textOf(copy.documentElement.outerHTML, anchor);
  };
}

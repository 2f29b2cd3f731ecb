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
// Sphinx's sentences speak of documents and of categories, of which there are none.
if (typeof Documentation === "object")
  Object.assign(Documentation.TRANSLATIONS, {
    "Search Results": "What was found",
    "Search finished, found ${resultCount} page(s) matching the search query.": "Pages and sections found: ${resultCount}.",
    "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
      "No page holds all these words. Try fewer words, or another spelling.",
  });
// What a solution page folds is not quoted below a result, nor what stands around the text of a page.
if (typeof Search === "object") {
  // A heading that holds what was typed stands before pages that hold its words apart.
  const phrase = asked?.trim().toLowerCase();
  Scorer.score = ([, title, , , score]) => score + (title.toLowerCase().includes(phrase) ? 20 : 0);
  const textOf = Search.htmlToText;
  Search.htmlToText = (page, anchor) => {
    const copy = new DOMParser().parseFromString(page, "text/html");
    for (const fold of copy.querySelectorAll(".solution-fold, .page-head, .contents-fold, .done, .turn")) fold.remove();
    return textOf(copy.documentElement.outerHTML, anchor);
  };
}

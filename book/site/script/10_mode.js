// The button for colours goes round: as the system, light, dark. What was chosen is kept for the next page.
const names = { auto: "as the system", light: "light", dark: "dark" };
const button = document.querySelector(".mode");
const label = () => {
  const mode = document.documentElement.dataset.mode;
  button.querySelector("span").textContent = `Colours: ${names[mode]}`;
};
button.hidden = false;
button.addEventListener("click", () => {
  const modes = Object.keys(names);
  const next = modes[(modes.indexOf(document.documentElement.dataset.mode) + 1) % modes.length];
  try {
    localStorage.setItem("mode", next);
  } catch {
    document.documentElement.dataset.defaultMode = next;  // no storage: the choice holds for this page
  }
  dispatchEvent(new Event("attnlab:mode"));
  label();
});
addEventListener("storage", label);
label();

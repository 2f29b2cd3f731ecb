// Runs before anything is drawn, so that a page never flashes in the wrong colours.
(() => {
  const page = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try { return localStorage.getItem("mode"); } catch { return null; }
  };
  const show = () => {
    const mode = kept() || page.dataset.defaultMode;
    page.dataset.mode = mode;
    page.dataset.theme = mode === "auto" ? (system.matches ? "dark" : "light") : mode;
  };
  show();
  system.addEventListener("change", show);
  addEventListener("storage", show);
  addEventListener("attnlab:mode", show);
  // The formulas' font is asked for before the style sheet names it. From a file, browsers refuse that with a complaint.
  if (location.protocol !== "file:") {
    const font = { rel: "preload", as: "font", type: "font/woff2", crossOrigin: "", href: document.currentScript.dataset.font };
    document.head.append(Object.assign(document.createElement("link"), font));
  }
})();

// A button on each code cell that puts the code on the clipboard.
if (navigator.clipboard) {
  for (const block of document.querySelectorAll("article .highlight")) {
    if (block.closest(".cell_output")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent.trimEnd());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
}

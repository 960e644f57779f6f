// Names for screen readers, which the buttons of the theme that unfold a section lack.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("nav details > summary:not([aria-label])")) {
    const link = summary.closest("li")?.querySelector("a");
    summary.setAttribute("aria-label", `Pages below ${link?.textContent?.trim() ?? "this one"}`);
  }
});

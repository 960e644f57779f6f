// A modal dialog with a title; Escape and the cross close it, and it removes itself.
import { freshId, h, iconButton } from "../dom";

export function openDialog(title: string, ...content: Node[]): HTMLDialogElement {
  const id = freshId("dialog");
  const dialog = h("dialog", { "aria-labelledby": id, close: () => dialog.remove() },
    h("header", {}, h("h2", { id }, title), iconButton("close", "Close", () => dialog.close())), ...content);
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal(); // what has autofocus gets it
  return dialog;
}

export function field(label: string, input: HTMLElement, hint = ""): HTMLElement {
  return h("label", { class: "field" }, h("span", { class: "field-name" }, label), input, hint ? h("span", { class: "hint" }, hint) : null);
}

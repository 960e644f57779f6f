// The keys that the page knows.
import { h } from "../dom";
import { openDialog } from "./dialog";

const KEYS: readonly (readonly [string, string])[] = [
  ["Ctrl Enter", "run the query"],
  ["Ctrl Space", "complete: tables, columns, genes after X['"],
  ["Escape, then Tab", "leave the editor with the keyboard"],
  ["Alt 1, 2, 3, 4", "go to data, query, result, map"],
  ["arrow keys", "in the map: move; in the table: go from cell to cell"],
  ["+  −  0", "in the map: zoom in, zoom out, all in view"],
  ["L", "in the map: lasso; Shift adds, Alt removes"],
  ["S", "in the map: select what is in view"],
  ["Escape", "in the map: clear the selection"],
  ["Ctrl C", "in the table: copy the cell"],
];

export function openHelp(): void {
  const rows = KEYS.flatMap(([keys, what]) => [h("dt", {}, ...keys.split(" ").flatMap((key) => [h("kbd", {}, key), " "])), h("dd", {}, what)]);
  openDialog("Keys", h("dl", { class: "keys" }, ...rows),
    h("p", { class: "hint" }, "All runs on this machine; nothing is sent elsewhere."));
}

// Save the selection as a vector of its axis, into the overlay.
import { saveVector } from "../api";
import { h, toast } from "../dom";
import { countOf } from "../format";
import { field, openDialog } from "./dialog";

export function openSave(schema: string, axis: string, count: number, overlay: string | null, saved: () => void): void {
  const name = h("input", { type: "text", autofocus: true, required: true, value: "selected", spellcheck: "false" });
  const inside = h("input", { type: "text", required: true, value: "in" });
  const outside = h("input", { type: "text", value: "out" });
  const replaces = h("input", { type: "checkbox" });
  const problem = h("p", { class: "cost", role: "alert" });
  const save = h("button", { type: "submit", class: "primary" }, "Save");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    save.disabled = true; // once is enough
    try {
      const values = { selection: true, true: inside.value, false: outside.value } as const;
      const done = await saveVector(schema, axis, name.value.trim(), values, replaces.checked);
      dialog.close();
      toast(`saved ${done.name} of ${axis}`);
      saved();
    } catch (error) {
      problem.classList.add("problem");
      problem.textContent = error instanceof Error ? error.message : String(error);
      save.disabled = false;
    }
  };
  const dialog = openDialog("Save the selection", h("form", { class: "form", submit: (event: Event) => void submit(event) },
    h("p", { class: "hint" }, `${countOf(count, axis)} get one value, all others another. It is written to ${overlay ?? "the data set"}.`),
    field("Name of the vector", name), field("Value of the selected", inside), field("Value of the others", outside),
    h("label", { class: "check" }, replaces, "Replace a vector of this name"), problem,
    h("div", { class: "form-actions" }, save)));
}

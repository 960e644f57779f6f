// Download a slice of a matrix as h5ad: what it takes is shown before.
import { download, estimateExtract, startExtract } from "../api";
import type { DataSet, ExtractRequest } from "../contract";
import { announce, h, option } from "../dom";
import { countOf, entriesOf, formatBytes, formatCount } from "../format";
import { matricesOf } from "../sql";
import { field, openDialog } from "./dialog";

export interface ExtractStart {
  readonly data: DataSet;
  readonly axis: string;
  readonly matrix: { readonly name: string; readonly columns: string } | null;
  readonly selected: number; // how many entries of the axis are selected; 0 without a selection
}

export function openExtract({ data, axis, matrix, selected }: ExtractStart): void {
  const matrices = matricesOf(data, axis);
  const first = Math.max(matrices.findIndex(({ name, columns }) => name === matrix?.name && columns === matrix.columns), 0); // the main one comes first
  const choice = h("select", { autofocus: true, change: () => void estimate() },
    ...matrices.map(({ name, columns }, place) => option(String(place), `${name} (${axis} × ${columns})`, place === first)));
  const which = h("select", { change: () => { rows.disabled = which.value === "selection"; void estimate(); } },
    ...(selected ? [option("selection", `the selection: ${countOf(selected, axis)}`, true)] : []), option("all", `all, or those of the condition`, !selected));
  const rows = h("input", { type: "text", class: "code", placeholder: "n_genes > 1000", spellcheck: "false", change: () => void estimate() });
  rows.disabled = selected > 0;
  const columns = h("input", { type: "text", class: "code", placeholder: "highly_variable", spellcheck: "false", change: () => void estimate() });
  const cost = h("p", { class: "cost", role: "status" });
  const start = h("button", { type: "submit", class: "primary", disabled: true }, "Download h5ad");
  let latest = 0;

  const request = (): ExtractRequest | null => {
    const chosen = matrices[Number(choice.value)];
    return chosen ? {
      schema: data.schema, rows_axis: axis, columns_axis: chosen.columns, matrix: chosen.name,
      rows: which.value === "selection" ? null : rows.value.trim() || null,
      selection: which.value === "selection", columns: columns.value.trim() || null,
    } : null;
  };
  async function estimate(): Promise<void> {
    const body = request();
    latest += 1;
    const mine = latest;
    start.disabled = true;
    if (!body) return void (cost.textContent = `No matrix has the axis ${axis}.`);
    cost.textContent = "counting…";
    cost.classList.remove("problem");
    try {
      const { rows: height, columns: width, stored, bytes } = await estimateExtract(body);
      if (mine !== latest) return;
      const elements = stored === null ? "" : `, ${formatCount(stored)} stored values`;
      cost.textContent = `${formatCount(height)} × ${formatCount(width)}${elements}: about ${formatBytes(bytes)}`;
      start.disabled = false;
    } catch (error) {
      if (mine !== latest) return;
      cost.classList.add("problem");
      cost.textContent = error instanceof Error ? error.message : String(error);
    }
  }
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    const body = request();
    if (!body) return;
    start.disabled = true;
    try {
      download((await startExtract(body)).ticket);
      announce("the download starts");
      dialog.close();
    } catch (error) {
      cost.classList.add("problem");
      cost.textContent = error instanceof Error ? error.message : String(error);
      start.disabled = false;
    }
  }
  const dialog = openDialog(`Extract ${entriesOf(axis)}`, h("form", { class: "form", submit: (event: Event) => void submit(event) },
    field("Matrix", choice), field("Which", which), field("Rows where", rows, "a condition in SQL"),
    field("Columns where", columns, "a condition on the other axis; empty for all"), cost, h("div", { class: "form-actions" }, start)));
  void estimate();
}

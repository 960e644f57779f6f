// The left side: data sets, axes, vectors and matrices. Values are read when one is opened.
import { getSummary } from "../api";
import type { Axis, Catalogue, DataSet, Matrix, VectorEntry } from "../contract";
import { h, iconButton } from "../dom";
import { formatCount, shortPath } from "../format";
import { identifier, tableName } from "../sql";
import { drawSummary } from "./summary";

export interface CatalogueListener {
  insert(text: string): void;
  query(sql: string): void;
  colour(schema: string, axis: string, vector: string): void;
  matrix(data: DataSet, matrix: Matrix, action: "extract" | "profile" | "colour"): void;
}

export class CataloguePanel {
  readonly element: HTMLElement;
  private readonly list = h("div", { class: "catalogue-list" });
  private readonly filter = h("input", {
    type: "search", placeholder: "Find a vector or matrix", "aria-label": "Find a vector or matrix", input: () => this.narrow(),
  });
  private catalogue: Catalogue | null = null;

  constructor(private readonly listener: CatalogueListener) {
    this.element = h("nav", { class: "catalogue", "aria-label": "Data sets" }, this.filter, this.list);
  }

  show(catalogue: Catalogue): void {
    this.catalogue = catalogue;
    this.list.replaceChildren(...catalogue.data_sets.map((data) => this.dataSet(data, catalogue.data_sets.length === 1)));
    this.narrow();
  }

  private dataSet(data: DataSet, only: boolean): HTMLElement {
    const order = [...data.axes].sort((one, other) =>
      other.embeddings.length - one.embeddings.length || other.vectors.length - one.vectors.length || (other.length ?? 0) - (one.length ?? 0));
    const scalars = Object.entries(data.scalars);
    return h("section", { class: "data-set" },
      h("h2", { title: data.path }, only ? shortPath(data.path) : data.schema),
      h("p", { class: "form" }, data.form),
      ...(data.axes.length ? [] : [h("p", { class: "hint" }, "It has no axes yet.")]),
      ...order.map((axis, place) => this.axis(data, axis, place < 2 && axis.vectors.length > 0)),
      ...(data.matrices.length ? [h("details", { class: "group", open: true }, h("summary", {}, h("span", { class: "group-name" }, "matrices"),
        h("span", { class: "amount" }, formatCount(data.matrices.length))),
        h("ul", {}, ...data.matrices.map((matrix) => this.matrix(data, matrix))))] : []),
      ...(scalars.length ? [h("details", { class: "group" }, h("summary", {}, h("span", { class: "group-name" }, "scalars"), h("span", { class: "amount" }, formatCount(scalars.length))),
        h("ul", {}, ...scalars.map(([name, value]) => h("li", { class: "item scalar" }, h("span", { class: "item-name" }, name),
          h("span", { class: "scalar-value", title: String(value) }, String(value))))))] : []));
  }

  private axis(data: DataSet, axis: Axis, open: boolean): HTMLElement {
    const table = this.catalogue ? tableName(this.catalogue, data.schema, axis.name) : identifier(axis.name);
    return h("details", { class: "group", open },
      h("summary", {}, h("span", { class: "group-name" }, axis.name), h("span", { class: "amount" }, axis.length === null ? "?" : formatCount(axis.length))),
      h("div", { class: "group-actions" },
        h("button", { type: "button", class: "link", click: () => this.listener.query(`SELECT *\nFROM ${table}\nLIMIT 1000`) }, `query ${axis.name}`)),
      ...(axis.problem ? [h("p", { class: "facts" }, axis.problem)] : []),
      h("ul", { "aria-label": `Vectors of ${axis.name}` }, ...axis.vectors.map((vector) => this.vector(data, axis, vector))));
  }

  private vector(data: DataSet, axis: Axis, vector: VectorEntry): HTMLElement {
    const summary = h("div", { class: "summary", hidden: true });
    let asked = false;
    const toggle = h("button", {
      type: "button", class: "item-name", "aria-expanded": "false", title: `${vector.name}: ${vector.type}`, click: () => {
        summary.hidden = !summary.hidden;
        toggle.setAttribute("aria-expanded", String(!summary.hidden));
        if (asked) return;
        asked = true;
        void this.summarise(summary, data.schema, axis.name, vector.name).then((isThere) => { asked = isThere; });
      },
    }, vector.name);
    const tools = axis.embeddings.length
      ? [iconButton("drop", `Colour by ${vector.name}`, () => this.listener.colour(data.schema, axis.name, vector.name))] : [];
    return h("li", { class: "item-block", "data-name": vector.name.toLowerCase() },
      h("div", { class: "item" }, toggle, h("span", { class: `type ${vector.kind}` }, vector.type),
        h("span", { class: "item-tools" }, ...tools, iconButton("insert", `Put ${vector.name} into the query`, () => this.listener.insert(identifier(vector.name))))),
      summary);
  }

  private async summarise(place: HTMLElement, schema: string, axis: string, vector: string): Promise<boolean> {
    place.replaceChildren(h("p", { class: "hint" }, "reading…"));
    try {
      place.replaceChildren(...drawSummary(await getSummary(schema, axis, vector)));
      return true;
    } catch (error) {
      place.replaceChildren(h("p", { class: "hint" }, error instanceof Error ? error.message : String(error)));
      return false;
    }
  }

  private matrix(data: DataSet, matrix: Matrix): HTMLElement {
    const facts = [matrix.is_sparse ? "sparse" : "dense", matrix.type, matrix.stored === null ? "" : `${formatCount(matrix.stored)} stored`].filter(Boolean).join(", ");
    const hasMap = [matrix.rows, matrix.columns].some((side) => data.axes.find(({ name }) => name === side)?.embeddings.length);
    const action = (name: "extract" | "profile" | "colour", label: string): HTMLElement =>
      h("button", { type: "button", class: "link", "aria-label": `${label} of ${matrix.rows} by ${matrix.columns} ${matrix.name}`,
        click: () => this.listener.matrix(data, matrix, name) }, label);
    return h("li", { class: "item-block", "data-name": `${matrix.name} ${matrix.rows} ${matrix.columns}`.toLowerCase() },
      h("div", { class: "item" }, h("span", { class: "item-name matrix-name" }, matrix.name), h("span", { class: "sides" }, `${matrix.rows} × ${matrix.columns}`)),
      h("p", { class: "facts" }, facts),
      h("div", { class: "group-actions" }, ...(hasMap ? [action("colour", "colour")] : []), action("profile", "dot plot"), action("extract", "extract")));
  }

  private narrow(): void {
    const wanted = this.filter.value.trim().toLowerCase();
    for (const item of this.list.querySelectorAll<HTMLElement>("[data-name]")) {
      item.hidden = wanted !== "" && !(item.dataset["name"] ?? "").includes(wanted);
    }
    if (wanted) for (const group of this.list.querySelectorAll("details")) {
      if (group.querySelector("[data-name]:not([hidden])")) group.open = true;
    }
  }
}

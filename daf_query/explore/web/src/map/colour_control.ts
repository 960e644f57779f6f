// Which values colour the points: a column, a gene or an SQL expression.
import type { ColourBy, DataSet } from "../contract";
import { h, option, redraw } from "../dom";
import { entryField } from "../gene_input";
import { matricesOf } from "../sql";

type Way = "vector" | "gene" | "sql";

const WAYS: Readonly<Record<Way, string>> = { vector: "Column", gene: "Gene", sql: "SQL" };

export class ColourControl {
  readonly element = h("div", { class: "colour-control", role: "group", "aria-label": "Colour" });
  private data: DataSet | null = null;
  private axis = "";
  private way: Way = "vector";

  constructor(private readonly chosen: (colour: ColourBy | null) => void) {}

  /** Offer what colours this axis, with one of them chosen. */
  show(data: DataSet, axis: string, colour: ColourBy | null): void {
    this.data = data;
    this.axis = axis;
    this.way = !colour || "vector" in colour ? "vector" : "gene" in colour ? "gene" : "sql";
    this.draw(colour);
  }

  /** Ask for a gene of this matrix. */
  offerGene(matrix: { readonly name: string; readonly columns: string }): void {
    this.way = "gene";
    this.draw({ gene: { matrix: matrix.name, columns: matrix.columns, name: "" } });
    this.element.querySelector("input")?.focus();
  }

  private draw(colour: ColourBy | null): void {
    const matrices = this.data ? matricesOf(this.data, this.axis) : [];
    const ways = (Object.keys(WAYS) as Way[]).filter((way) => way !== "gene" || matrices.length > 0);
    const select = h("select", {
      "aria-label": "Colour by", change: () => {
        this.way = select.value as Way;
        this.draw(null);
      },
    }, ...ways.map((way) => option(way, WAYS[way], way === this.way)));
    const field = this.way === "vector" ? this.vectors(colour) : this.way === "gene" ? this.genes(colour) : this.expression(colour);
    redraw(this.element, h("span", { class: "control-label", "aria-hidden": "true" }, "Colour"), select, ...field);
  }

  private vectors(colour: ColourBy | null): Node[] {
    const current = colour && "vector" in colour ? colour.vector : "";
    const vectors = this.data?.axes.find(({ name }) => name === this.axis)?.vectors ?? [];
    const select = h("select", { class: "wide", "aria-label": "Column", change: () => this.chosen(select.value ? { vector: select.value } : null) },
      option("", "none", current === ""), ...vectors.map(({ name }) => option(name, name, name === current)));
    return [select];
  }

  private genes(colour: ColourBy | null): Node[] {
    const data = this.data;
    if (!data) return [];
    const matrices = matricesOf(data, this.axis);
    const gene = colour && "gene" in colour ? colour.gene : null;
    const current = matrices.findIndex(({ name, columns }) => gene && name === gene.matrix && columns === gene.columns);
    const chosen = Math.max(current, 0); // the main one comes first
    const matrix = h("select", { "aria-label": "Matrix" },
      ...matrices.map(({ name, columns }, place) => option(String(place), `${columns}.${name}`, place === chosen)));
    const of = (): { name: string; columns: string } => matrices[Number(matrix.value)] as { name: string; columns: string };
    const { input, list } = entryField("gene", () => ({ schema: data.schema, axis: of().columns }));
    input.value = gene?.name ?? "";
    const choose = (): void => {
      if (input.value.trim()) this.chosen({ gene: { matrix: of().name, columns: of().columns, name: input.value.trim() } });
    };
    input.addEventListener("change", choose);
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    matrix.addEventListener("change", choose);
    return [matrix, input, list];
  }

  private expression(colour: ColourBy | null): Node[] {
    const input = h("input", {
      type: "text", class: "code wide", "aria-label": "SQL expression", placeholder: "n_genes / n_counts", spellcheck: "false",
      value: colour && "sql" in colour ? colour.sql : "",
    });
    const choose = (): void => { if (input.value.trim()) this.chosen({ sql: input.value.trim() }); };
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    return [input, h("button", { type: "button", class: "small", click: choose }, "Apply")];
  }
}

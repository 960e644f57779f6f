// The chart of the result, with choices of its shape and columns.
import type { Table } from "apache-arrow";
import { h, option, redraw } from "../dom";
import { type ChartColumn, type Choice, chooseChart, columnsOf, fits, parts, SHAPE_NAMES, type Shape } from "./choose";
import { drawChart } from "./draw";

export class ChartPanel {
  readonly element: HTMLDivElement;
  private readonly controls = h("div", { class: "chart-controls" });
  private readonly canvas = h("div", { class: "chart-canvas" });
  private table: Table | null = null;
  private choice: Choice | null = null;
  private stale = true;

  constructor() {
    this.element = h("div", { class: "chart-panel" }, this.controls, this.canvas);
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.stale = true; this.redraw(); }); // a canvas keeps its colours
  }

  show(table: Table): void {
    const names = (known: Table | null): string => JSON.stringify(known?.schema.fields.map((field) => [field.name, String(field.type)]));
    const same = this.choice !== null && names(this.table) === names(table);
    this.table = table;
    if (!same) this.choice = chooseChart(table);
    this.stale = true;
    this.redraw();
  }

  /** Draw, if the panel is visible; a hidden one is drawn when it is shown. */
  redraw(): void {
    if (!this.table || this.canvas.clientWidth === 0) return;
    const width = this.canvas.clientWidth;
    if (!this.stale && Number(this.canvas.dataset["width"]) === width && Number(this.canvas.dataset["height"]) === this.canvas.clientHeight) return;
    this.stale = false;
    this.drawControls(); // they take from the height of the chart
    this.canvas.dataset["width"] = String(width);
    this.canvas.dataset["height"] = String(this.canvas.clientHeight);
    if (!this.choice || this.table.numRows === 0) {
      this.canvas.replaceChildren(h("p", { class: "hint" }, this.table.numRows ? "No column of this result can be drawn." : "No rows to draw."));
      return;
    }
    this.canvas.replaceChildren(drawChart(this.table, this.choice, { width: width - 4, height: Math.max(this.canvas.clientHeight - 8, 200) }));
  }

  private drawControls(): void {
    const [table, choice] = [this.table, this.choice];
    if (!table || !choice) return this.controls.replaceChildren();
    const columns = columnsOf(table);
    const shapes = (Object.keys(SHAPE_NAMES) as Shape[]).map((shape) => option(shape, SHAPE_NAMES[shape], shape === choice.shape));
    const choices = (axis: "x" | "y", chosen: number | null): HTMLOptionElement[] =>
      columns.filter(({ sort }) => fits(choice.shape, axis, sort)).map(({ name, place }) => option(String(place), name, place === chosen));
    const select = (label: string, options: HTMLOptionElement[], change: (value: string) => void): HTMLElement =>
      h("label", {}, h("span", { "aria-hidden": "true" }, label), h("select", { "aria-label": label, change: (event: Event) => change((event.target as HTMLSelectElement).value) }, ...options));
    redraw(this.controls,
      select("Chart", shapes, (shape) => this.choose({ ...choice, shape: shape as Shape })),
      select(choice.shape === "bars" || choice.shape === "counts" ? "Names" : "X", choices("x", choice.x), (x) => this.choose({ ...choice, x: Number(x) })),
      ...(choice.shape === "histogram" || choice.shape === "counts" ? []
        : [select(choice.shape === "bars" ? "Values" : "Y", choices("y", choice.y), (y) => this.choose({ ...choice, y: Number(y) }))]),
      ...(choice.shape === "bars" || choice.shape === "counts" ? this.parting(select, columns, choice) : []));
  }

  /** What bars are parted by, and whether the parts stand on each other. */
  private parting(
    select: (label: string, options: HTMLOptionElement[], change: (value: string) => void) => HTMLElement,
    columns: readonly ChartColumn[], choice: Choice,
  ): HTMLElement[] {
    const by = columns.filter(({ place, sort }) => place !== choice.x && parts(choice.shape, sort));
    if (!by.length) return [];
    const options = [option("", "nothing", choice.by === null), ...by.map(({ name, place }) => option(String(place), name, place === choice.by))];
    const arrangements = [option("stacked", "stacked", choice.stacked), option("grouped", "side by side", !choice.stacked)];
    return [
      select("Split by", options, (place) => this.choose({ ...choice, by: place === "" ? null : Number(place) })),
      ...(choice.by === null ? [] : [select("Parts", arrangements, (way) => this.choose({ ...choice, stacked: way === "stacked" }))]),
    ];
  }

  private choose(choice: Choice): void {
    if (!this.table) return;
    const columns = columnsOf(this.table);
    const valid = (axis: "x" | "y", place: number | null): number | null => {
      const chosen = columns.find((column) => column.place === place);
      if (chosen && fits(choice.shape, axis, chosen.sort)) return chosen.place;
      return columns.find(({ sort }) => fits(choice.shape, axis, sort))?.place ?? null;
    };
    const x = valid("x", choice.x);
    const y = choice.shape === "histogram" || choice.shape === "counts" ? null : valid("y", choice.y);
    if (x === null || (y === null && ["bars", "line", "dots"].includes(choice.shape))) return this.drawControls();
    const by = columns.find(({ place, sort }) => place === choice.by && place !== x && parts(choice.shape, sort))?.place ?? null;
    this.choice = { shape: choice.shape, x, y, by, stacked: choice.stacked };
    this.stale = true;
    this.redraw();
  }
}

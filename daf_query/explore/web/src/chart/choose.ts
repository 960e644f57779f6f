// Which chart a result's types ask for, and which columns it is made of.
import type { Table } from "apache-arrow";
import { type Sort, sortOf } from "../result/values";

export type Shape = "bars" | "histogram" | "line" | "dots" | "counts";

export interface Choice {
  readonly shape: Shape;
  readonly x: number;
  readonly y: number | null;
  readonly by: number | null; // the column whose values part the bars
  readonly stacked: boolean;
}

export interface ChartColumn {
  readonly name: string;
  readonly place: number;
  readonly sort: Sort;
}

export const SHAPE_NAMES: Readonly<Record<Shape, string>> = {
  bars: "Bars", counts: "Counts of values", histogram: "Histogram", line: "Line", dots: "Points",
};

export function columnsOf(table: Table): ChartColumn[] {
  return table.schema.fields.map((field, place) => ({ name: field.name, place, sort: sortOf(field) }));
}

function isIdentifier(table: Table, column: ChartColumn): boolean {
  if (column.name !== "name" && column.sort !== "string") return false;
  const vector = table.getChildAt(column.place);
  if (!vector || table.numRows < 60) return false;
  const seen = new Set<unknown>();
  for (let row = 0; row < Math.min(200, table.numRows); row += 1) seen.add(vector.get(row));
  return seen.size > 150;
}

/** The first chart to show: null where no column can be drawn. */
export function chooseChart(table: Table): Choice | null {
  const columns = columnsOf(table).filter((column) => column.sort !== "other" && column.name !== "index");
  const numbers = columns.filter(({ sort }) => sort === "number");
  const dates = columns.filter(({ sort }) => sort === "date");
  const words = columns.filter((column) =>
    (column.sort === "string" || column.sort === "boolean") && !isIdentifier(table, column));
  const [first, second] = numbers;
  const whole = { by: null, stacked: true };
  if (dates[0] && first) return { shape: "line", x: dates[0].place, y: first.place, ...whole };
  if (words[0] && first && table.numRows <= 200) {
    return { shape: "bars", x: words[0].place, y: first.place, by: words[1]?.place ?? null, stacked: false };
  }
  if (first && second) return { shape: "dots", x: first.place, y: second.place, ...whole };
  if (first) return { shape: "histogram", x: first.place, y: null, ...whole };
  if (words[0]) return { shape: "counts", x: words[0].place, y: null, by: words[1]?.place ?? null, stacked: true };
  return null;
}

/** Whether bars of a shape can be parted by a column. */
export const parts = (shape: Shape, sort: Sort): boolean =>
  (shape === "bars" || shape === "counts") && (sort === "string" || sort === "boolean");

/** Why a shape cannot be drawn of a column, or null. */
export function fits(shape: Shape, axis: "x" | "y", sort: Sort): boolean {
  if (sort === "other") return false;
  if (axis === "y") return sort === "number";
  if (shape === "bars" || shape === "counts") return true;
  return sort === "number" || sort === "date";
}

// The values of a result's columns: how they are shown, copied and compared.
import { DataType, type Field, type Vector } from "apache-arrow";
import { formatNumber } from "../format";

export type Sort = "number" | "date" | "boolean" | "string" | "other";

export function sortOfType(type: DataType): Sort {
  if (DataType.isDictionary(type)) return sortOfType(type.dictionary);
  if (DataType.isInt(type) || DataType.isFloat(type)) return "number";
  if (DataType.isTimestamp(type) || DataType.isDate(type)) return "date";
  if (DataType.isBool(type)) return "boolean";
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) return "string";
  return "other";
}

export const sortOf = (field: Field): Sort => sortOfType(field.type);

/** A number for a number, a date (milliseconds) or a boolean; NaN for NULL. */
export function asNumber(value: unknown): number {
  if (value === null || value === undefined) return Number.NaN;
  if (value instanceof Date) return value.getTime();
  return Number(value);
}

function asDate(value: unknown): string {
  const text = new Date(asNumber(value)).toISOString();
  return text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : text.replace("T", " ").replace(/\.000Z$|Z$/, "");
}

function jsonSafe(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

/** The whole value as text: what is copied. */
export function asText(value: unknown, sort: Sort): string {
  if (value === null || value === undefined) return "";
  if (sort === "date") return asDate(value);
  if (typeof value === "object") return JSON.stringify(value, jsonSafe) ?? String(value);
  return String(value);
}

/** The value as a cell shows it: numbers rounded to what can be read. */
export function asCell(value: unknown, sort: Sort): string {
  if (value === null || value === undefined) return "NULL";
  if (sort === "number" && typeof value === "number" && !Number.isInteger(value)) return formatNumber(value);
  return asText(value, sort);
}

/** One number for each row, in the order of the values: what rows are sorted by. NULL is NaN. */
export function sortKeys(column: Vector, sort: Sort): Float64Array {
  const keys = new Float64Array(column.length);
  let row = 0;
  if (sort === "number" || sort === "date" || sort === "boolean") {
    for (const value of column) keys[row++] = asNumber(value);
    return keys;
  }
  const ranks = new Map<string, number>();
  const texts: (string | null)[] = new Array(column.length);
  for (const value of column) {
    const text = value === null ? null : asText(value, sort);
    texts[row++] = text;
    if (text !== null) ranks.set(text, 0);
  }
  const collator = new Intl.Collator("en", { numeric: true });
  [...ranks.keys()].sort(collator.compare).forEach((text, rank) => ranks.set(text, rank));
  texts.forEach((text, place) => { keys[place] = text === null ? Number.NaN : (ranks.get(text) as number); });
  return keys;
}

/** The rows in the order of their keys; NULL is last either way. Equal ones stay in order. */
export function sortedRows(keys: Float64Array, descending: boolean): Uint32Array {
  const order = Uint32Array.from(keys, (_, row) => row);
  const sign = descending ? -1 : 1;
  return order.sort((left, right) => {
    const [one, other] = [keys[left] as number, keys[right] as number];
    if (Number.isNaN(one)) return Number.isNaN(other) ? left - right : 1;
    if (Number.isNaN(other)) return -1;
    return sign * (one - other) || left - right;
  });
}

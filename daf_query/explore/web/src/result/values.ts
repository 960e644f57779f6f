// The values of a result's columns: how they are shown, copied and compared.
import { type Decimal, DataType, type Duration, type Field, type Time, TimeUnit, type Vector } from "apache-arrow";
import { formatNumber } from "../format";

export type Sort = "number" | "date" | "boolean" | "string" | "other";

export function sortOfType(type: DataType): Sort {
  if (DataType.isDictionary(type)) return sortOfType(type.dictionary);
  if (DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type)) return "number";
  if (DataType.isTimestamp(type) || DataType.isDate(type)) return "date";
  if (DataType.isBool(type)) return "boolean";
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) return "string";
  return "other";
}

export const sortOf = (field: Field): Sort => sortOfType(field.type);

/** What a row of a column has: decimals, times and durations, which Arrow keeps as integers, as text. */
export function valuesOf(column: Vector): (row: number) => unknown {
  if (DataType.isTimestamp(column.type)) return (row) => timestamp(column, row);
  const write = writerOf(column.type as DataType);
  if (!write) return (row) => column.get(row);
  return (row) => {
    const value: unknown = column.get(row);
    return value === null ? null : write(value);
  };
}

function writerOf(type: DataType): ((value: unknown) => string) | null {
  if (DataType.isDecimal(type)) return (value) => decimal(value as Uint32Array, (type as Decimal).scale);
  if (DataType.isTime(type)) return (value) => timeOfDay(BigInt(value as number | bigint), (type as Time).unit);
  if (DataType.isDuration(type)) return (value) => `${value} ${UNITS[(type as Duration).unit]}`;
  if (DataType.isBinary(type) || DataType.isLargeBinary(type) || DataType.isFixedSizeBinary(type)) {
    return (value) => `0x${[...(value as Uint8Array)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  }
  if (DataType.isInterval(type)) return (value) => interval(value as Int32Array);
  return null;
}

function timestamp(column: Vector, row: number): unknown {
  try {
    return column.get(row);
  } catch (error) {
    if (error instanceof TypeError) return "beyond the dates of this page";
    throw error;
  }
}

function interval(parts: Int32Array): string {
  const [first = 0, second = 0, low = 0, high = 0] = parts;
  if (parts.length === 1) return `${first} months`;
  if (parts.length === 2) return `${first} days ${second} ms`;
  return `${first} months ${second} days ${(BigInt(high) << 32n) | BigInt(low >>> 0)} ns`;
}

const UNITS: Readonly<Record<TimeUnit, string>> = {
  [TimeUnit.SECOND]: "s", [TimeUnit.MILLISECOND]: "ms", [TimeUnit.MICROSECOND]: "µs", [TimeUnit.NANOSECOND]: "ns",
};

/** All digits of an integer in words of 32 bits, the lowest first, with the point where it belongs. */
function decimal(words: Uint32Array, scale: number): string {
  let whole = 0n;
  words.forEach((word, place) => { whole |= BigInt(word) << BigInt(32 * place); });
  whole = BigInt.asIntN(32 * words.length, whole);
  const digits = String(whole < 0n ? -whole : whole).padStart(scale + 1, "0");
  const point = digits.length - scale;
  return `${whole < 0n ? "-" : ""}${digits.slice(0, point)}${scale > 0 ? `.${digits.slice(point)}` : ""}`;
}

function timeOfDay(count: bigint, unit: TimeUnit): string {
  const digits = 3 * unit;
  const perSecond = 10n ** BigInt(digits);
  const seconds = count / perSecond;
  const two = (part: bigint): string => String(part).padStart(2, "0");
  const rest = digits ? `.${String(count % perSecond).padStart(digits, "0")}`.replace(/\.?0+$/, "") : "";
  return `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}${rest}`;
}

/** A number for a number, a date (milliseconds) or a boolean; NaN for NULL. */
export function asNumber(value: unknown): number {
  if (value === null || value === undefined) return Number.NaN;
  if (value instanceof Date) return value.getTime();
  return Number(value);
}

function asDate(value: unknown): string {
  const time = asNumber(value);
  const whole = Math.floor(time);
  const date = new Date(whole);
  if (Number.isNaN(date.getTime())) return `${time} ms after 1970`; // beyond the years that dates have here
  const micros = Math.min(Math.round((time - whole) * 1000), 999);
  const text = date.toISOString().replace("Z", micros ? String(micros).padStart(3, "0") : "");
  return text.endsWith("T00:00:00.000") ? text.slice(0, 10) : text.replace("T", " ").replace(/\.000$/, "");
}

function jsonSafe(_: string, value: unknown): unknown {
  const raw = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON; // newer than the types
  if (typeof value !== "bigint") return value;
  return raw ? raw(String(value)) : String(value);
}

/** The whole value as text: what is copied. */
export function asText(value: unknown, sort: Sort): string {
  if (value === null || value === undefined) return "";
  if (sort === "date" && typeof value !== "string") return asDate(value);
  if (typeof value === "object") return JSON.stringify(value, jsonSafe) ?? String(value);
  return String(value);
}

/** The value as a cell shows it: numbers rounded to what can be read. */
export function asCell(value: unknown, sort: Sort): string {
  if (value === null || value === undefined) return "NULL";
  if (sort === "number" && typeof value === "number" && !Number.isInteger(value)) return formatNumber(value);
  return asText(value, sort);
}

/** The numbers, dates (milliseconds) or booleans of a column; NULL is NaN. */
export function numbersOf(column: Vector): Float64Array {
  const value = valuesOf(column);
  return Float64Array.from({ length: column.length }, (_, row) => asNumber(value(row)));
}

/** Whole numbers of which neighbours would be one and the same float, by their order. */
function ranksOf(exact: readonly (bigint | null)[]): Float64Array {
  const different = [...new Set(exact)].filter((value) => value !== null).sort((one, other) => (one < other ? -1 : 1));
  const ranks = new Map(different.map((value, rank) => [value, rank]));
  return Float64Array.from(exact, (value) => (value === null ? Number.NaN : (ranks.get(value) as number)));
}

/** One number for each row, in the order of the values: what rows are sorted by. NULL is NaN. */
export function sortKeys(column: Vector, sort: Sort): Float64Array {
  if (sort === "number" || sort === "date" || sort === "boolean") {
    const numbers = numbersOf(column);
    const isLarge = DataType.isInt(column.type) && numbers.some((number) => Math.abs(number) > Number.MAX_SAFE_INTEGER);
    return isLarge ? ranksOf([...column] as (bigint | null)[]) : numbers;
  }
  const keys = new Float64Array(column.length);
  let row = 0;
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

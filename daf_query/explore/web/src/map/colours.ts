// Colours of values: a palette for categories, viridis for numbers, and one code for each point.
import { DataType, tableFromIPC, type Vector } from "apache-arrow";
import { formatCount } from "../format";

/** Distinct on white and on black; neighbours differ in lightness too. */
const CATEGORIES = [
  "#3b7dd8", "#f28e2b", "#35a06d", "#d94f5c", "#9467bd", "#b07a52", "#e377c2", "#17a2b8", "#c9a227", "#7f8894",
  "#86b6f2", "#f9be7d", "#8fd3a8", "#f2a0a5", "#c5b0e3", "#d3b394", "#f4b6dc", "#8fd6e1", "#e6d37a", "#b9bfc7",
];
const VIRIDIS = [
  "#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
];
export const MOST_CATEGORIES = 4096;

export type Rgb = readonly [number, number, number];

/** What a point's code means. Code 0 is a missing value. */
export interface Colouring {
  readonly label: string;
  readonly codes: Uint16Array;
  readonly palette: Uint8Array; // red, green, blue, alpha of each code
  readonly categories: readonly Category[] | null;
  readonly range: { readonly low: number; readonly high: number; readonly bins: readonly number[] } | null;
  readonly missing: number;
}

export interface Category {
  readonly code: number;
  readonly name: string;
  readonly count: number;
  readonly colour: string;
}

export function parse(colour: string): Rgb {
  const value = Number.parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

const css = ([red, green, blue]: Rgb): string => `rgb(${red}, ${green}, ${blue})`;

export function categoryColour(place: number): string {
  if (place < CATEGORIES.length) return CATEGORIES[place] as string;
  const hue = (place * 137.508) % 360;
  return hsl(hue, 0.5 + 0.2 * (place % 2), 0.45 + 0.12 * (place % 3));
}

function hsl(hue: number, saturation: number, lightness: number): string {
  const channel = (shift: number): number => {
    const k = (shift + hue / 30) % 12;
    const reach = saturation * Math.min(lightness, 1 - lightness);
    return Math.round(255 * (lightness - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return `#${[channel(0), channel(8), channel(4)].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

const darkness = matchMedia("(prefers-color-scheme: dark)");
const DARKEST_ON_DARK = 0.22; // what is darker can hardly be seen on a dark ground

/** Viridis at a place from 0 to 1; on a dark ground, without its darkest part. */
export function viridis(place: number): Rgb {
  const start = darkness.matches ? DARKEST_ON_DARK : 0;
  const at = (start + (1 - start) * Math.min(Math.max(place, 0), 1)) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const [one, other] = [parse(VIRIDIS[low] as string), parse(VIRIDIS[low + 1] as string)];
  const mix = (channel: 0 | 1 | 2): number => Math.round(one[channel] + (other[channel] - one[channel]) * (at - low));
  return [mix(0), mix(1), mix(2)];
}

export const viridisCss = (place: number): string => css(viridis(place));

/** Fewer for a dark and a light ground: what is missing has to be seen on both. */
export const MISSING: Rgb = [150, 155, 163];

function paletteOf(colours: readonly Rgb[]): Uint8Array {
  const palette = new Uint8Array((colours.length + 1) * 4);
  [MISSING, ...colours].forEach(([red, green, blue], code) => palette.set([red, green, blue, 255], code * 4));
  return palette;
}

/** All points alike. */
export function plainColouring(count: number): Colouring {
  const codes = new Uint16Array(count).fill(1);
  return { label: "", codes, palette: paletteOf([parse(CATEGORIES[0] as string)]), categories: null, range: null, missing: 0 };
}

const brush = document.createElement("canvas").getContext("2d");

/** A colour in any notation of CSS as #rrggbb; null for what is none, or is transparent. */
function plainColour(written: unknown): string | null {
  if (!brush || typeof written !== "string" || !CSS.supports("color", written)) return null;
  brush.fillStyle = written;
  return /^#[0-9a-f]{6}$/.test(brush.fillStyle) ? brush.fillStyle : null;
}

const MOST_PLACES = 40; // of more categories, those that do not occur have no colour

/** The colours of categories: those that the data note, if all that occur have one; else a palette. */
function coloursOf(occurs: readonly boolean[], noted: readonly unknown[]): string[] {
  const own = noted.length ? occurs.map((there, place) => (there ? plainColour(noted[place]) : "")) : [null];
  if (own.every((colour) => colour !== null)) return own;
  let place = 0;
  return occurs.map((there) => (there || occurs.length <= MOST_PLACES ? categoryColour(place++) : ""));
}

const onMap = new Map<string, ReadonlyMap<string, string>>(); // of each column that has coloured it

/** The colours of names of a column, in their order: those on the map if it has them all. */
export function coloursOfNames(label: string, names: readonly string[]): string[] {
  const colours = onMap.get(label);
  return names.map((name, place) => (colours && names.every((each) => colours.has(each)) ? (colours.get(name) as string) : categoryColour(place)));
}

function ofCategories(column: Vector, label: string, noted: readonly unknown[]): Colouring {
  const codes = new Uint16Array(column.length);
  const names: string[] = [];
  const known = new Map<string, number>(); // beyond the most that have colours, all share the last code
  const codeOf = (name: string): number => {
    const code = known.get(name) ?? Math.min(known.size + 1, MOST_CATEGORIES);
    if (!known.has(name)) {
      known.set(name, code);
      if (code === names.length + 1) names.push(name);
    }
    return code;
  };
  let row = 0;
  for (const chunk of column.data) {
    const dictionary = chunk.dictionary;
    if (dictionary && chunk.values) {
      const mapped = Uint16Array.from({ length: dictionary.length }, (_, place) => {
        const name: unknown = dictionary.get(place);
        return name === null ? 0 : codeOf(String(name));
      });
      const indexes = chunk.values as Int32Array;
      for (let place = 0; place < chunk.length; place += 1, row += 1) {
        codes[row] = chunk.nullCount > 0 && !chunk.getValid(place) ? 0 : (mapped[indexes[place] as number] as number);
      }
    }
  }
  if (row < column.length) {
    row = 0;
    for (const value of column) codes[row++] = value === null ? 0 : codeOf(String(value));
  }
  if (known.size > MOST_CATEGORIES) names[MOST_CATEGORIES - 1] = `${formatCount(known.size - MOST_CATEGORIES + 1)} other values`;
  const counts = new Uint32Array(names.length + 1);
  for (const code of codes) counts[code]! += 1;
  const colours = coloursOf(names.map((_, place) => (counts[place + 1] as number) > 0), noted);
  const categories = names.map((name, place) => ({ code: place + 1, name, count: counts[place + 1] as number, colour: colours[place] as string }))
    .filter(({ count }) => count > 0); // in the order of the data
  onMap.set(label, new Map(categories.map(({ name, colour }) => [name, colour])));
  return { label, codes, palette: paletteOf(colours.map(parse)), categories, range: null, missing: counts[0] as number };
}

const LEVELS = 255;

const levels = (): Uint8Array => paletteOf(Array.from({ length: LEVELS }, (_, level) => viridis(level / (LEVELS - 1))));

/** The same colouring for another ground; categories are the same on both. */
export function recoloured(colouring: Colouring): Colouring {
  return colouring.range ? { ...colouring, palette: levels() } : colouring;
}

/** Call a function whenever the ground becomes dark or light. */
export const onGround = (changed: () => void): void => darkness.addEventListener("change", changed);

type Range = (low: number, high: number) => { readonly low: number; readonly high: number };

/** Colours of numbers; they came in single precision, and `exact` knows the ends of their range. */
function ofNumbers(column: Vector, label: string, exact: Range): Colouring {
  const values = column.toArray() as ArrayLike<number>;
  const isMissing = column.nullCount > 0 ? (row: number): boolean => column.get(row) === null : (): boolean => false;
  let [low, high] = [Infinity, -Infinity];
  for (let row = 0; row < values.length; row += 1) {
    const value = Number(values[row]);
    if (!Number.isFinite(value) || isMissing(row)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const codes = new Uint16Array(values.length);
  const bins = new Array<number>(32).fill(0);
  const span = high > low ? high - low : 1;
  let missing = 0;
  for (let row = 0; row < values.length; row += 1) {
    const value = Number(values[row]);
    if (Number.isNaN(value) || isMissing(row)) {
      missing += 1;
      continue;
    }
    const place = low > high ? Number(value > 0) : Math.min(Math.max((value - low) / span, 0), 1); // all are infinite
    codes[row] = 1 + Math.round(place * (LEVELS - 1));
    bins[Math.min(31, Math.floor(place * 32))]! += 1;
  }
  return { label, codes, palette: levels(), categories: null, range: low <= high ? { ...exact(low, high), bins } : null, missing };
}

/** Colours of the column that the server sent. */
export function colouringOf(stream: ArrayBuffer, label: string): Colouring {
  const table = tableFromIPC(new Uint8Array(stream));
  const column = table.getChildAt(0);
  if (!column) return plainColouring(0);
  const metadata = table.schema.fields[0]?.metadata;
  const isNumber = DataType.isFloat(column.type) || DataType.isInt(column.type);
  if (!isNumber) return ofCategories(column, label, JSON.parse(metadata?.get("colours") ?? "[]") as unknown[]);
  return ofNumbers(column, label, (low, high) => ({ low: Number(metadata?.get("low") ?? low), high: Number(metadata?.get("high") ?? high) }));
}

// Charts as SVG, with a sentence that says what they show. Many points go onto a canvas beneath.
import type { Table } from "apache-arrow";
import { bin, extent, max, min } from "d3-array";
import { scaleBand, scaleLinear, scaleUtc } from "d3-scale";
import { h, svg } from "../dom";
import { formatCount, formatNumber } from "../format";
import { coloursOfNames } from "../map/colours";
import { asNumber, asText, numbersOf, sortOf, valuesOf } from "../result/values";
import type { Choice } from "./choose";

const MOST_BARS = 40;

export interface Size {
  readonly width: number;
  readonly height: number;
}

interface Scale {
  (value: number): number;
  ticks(count?: number): unknown[];
  tickFormat(count?: number): (value: any) => string;
}

function numeric(table: Table, place: number): Float64Array {
  const column = table.getChildAt(place);
  return column ? numbersOf(column) : new Float64Array(0);
}

function words(table: Table, place: number): string[] {
  const field = table.schema.fields[place];
  const column = table.getChildAt(place);
  if (!field || !column) return [];
  const value = valuesOf(column);
  return Array.from({ length: column.length }, (_, row) => (value(row) === null ? "NULL" : asText(value(row), sortOf(field))));
}

const LETTER_WIDTH = 7.6; // of capitals, which are many in names of cell types
const shorten = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function frame(size: Size, label: string, ...children: SVGElement[]): SVGSVGElement {
  return svg("svg", {
    viewBox: `0 0 ${size.width} ${size.height}`, width: size.width, height: size.height, role: "img", "aria-label": label, class: "chart",
  }, ...children);
}

function bottomAxis(scale: Scale, size: Size, bottom: number, title: string): SVGElement {
  const count = Math.max(2, Math.floor(size.width / 90));
  const format = scale.tickFormat(count);
  const ticks = scale.ticks(count).map((tick) => {
    const x = scale(Number(tick));
    return svg("g", { transform: `translate(${x},${bottom})` },
      svg("line", { y2: 5, class: "tick" }), svg("text", { y: 18, "text-anchor": "middle" }, format(tick)));
  });
  return svg("g", { class: "chart-axis" }, ...ticks,
    svg("text", { x: size.width / 2, y: bottom + 38, "text-anchor": "middle", class: "axis-title" }, title));
}

function leftAxis(scale: Scale, size: Size, left: number, top: number, bottom: number, title: string): SVGElement {
  const count = Math.max(2, Math.floor((bottom - top) / 50));
  const format = scale.tickFormat(count);
  const ticks = scale.ticks(count).map((tick) => svg("g", { transform: `translate(${left},${scale(Number(tick))})` },
    svg("line", { x2: size.width - left - 16, class: "grid-line" }),
    svg("text", { x: -8, dy: "0.32em", "text-anchor": "end" }, format(tick))));
  return svg("g", { class: "chart-axis" }, ...ticks,
    svg("text", { x: left - 4, y: top - 10, "text-anchor": "start", class: "axis-title" }, title));
}

interface Bar {
  readonly name: string;
  readonly value: number;
}

/** How many letters of names have room on the left of bars, and where these begin. */
function roomOf(names: readonly string[], size: Size): { letters: number; left: number } {
  const room = Math.floor((size.width * 0.45 - 16) / LETTER_WIDTH);
  const letters = Math.min(Math.max(...names.map((name) => name.length)), room, 30);
  return { letters, left: Math.max(letters * LETTER_WIDTH + 16, 60) };
}

function drawBars(bars: readonly Bar[], hidden: number, size: Size, title: string, of: string): SVGSVGElement {
  const rowHeight = 24;
  const height = bars.length * rowHeight + 64;
  const { letters, left } = roomOf(bars.map(({ name }) => name), size);
  const values = bars.map(({ value }) => (Number.isNaN(value) ? 0 : value));
  const x = scaleLinear([Math.min(0, min(values) ?? 0), Math.max(0, max(values) ?? 1)], [left, size.width - 76]).nice();
  const y = scaleBand(bars.map((_, place) => place), [16, height - 48]).padding(0.22);
  const marks = bars.map(({ name, value }, place) => {
    const [start, end] = [x(0), x(Number.isNaN(value) ? 0 : value)];
    const top = y(place) ?? 0;
    return svg("g", {},
      svg("title", {}, `${name}: ${formatNumber(value)}`),
      svg("rect", { x: Math.min(start, end), y: top, width: Math.max(Math.abs(end - start), 1), height: y.bandwidth(), rx: 3, class: "mark" }),
      svg("text", { x: left - 8, y: top + y.bandwidth() / 2, dy: "0.35em", "text-anchor": "end", class: "bar-name" }, shorten(name, letters)),
      svg("text", { x: Math.max(start, end) + 6, y: top + y.bandwidth() / 2, dy: "0.35em", class: "bar-value" }, formatNumber(value)));
  });
  const note = hidden > 0 ? `; ${formatCount(hidden)} more are not shown` : "";
  const said = bars.slice(0, 8).map(({ name, value }) => `${name} ${formatNumber(value)}`).join(", ");
  return frame({ width: size.width, height }, `Bars of ${title} by ${of}: ${said}${note}`,
    bottomAxis(x, { width: size.width, height }, height - 46, title + note), ...marks);
}

function counted(table: Table, place: number): Bar[] {
  const counts = new Map<string, number>();
  for (const word of words(table, place)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([name, value]) => ({ name, value })).sort((one, other) => other.value - one.value);
}

const MOST_PARTS = 20;

/** What bars are made of: a value for each name and part; rows that share both are added up. */
function partedValues(table: Table, choice: Choice, by: number) {
  const [names, parts] = [words(table, choice.x), words(table, by)];
  const column = choice.y === null ? null : table.getChildAt(choice.y);
  const value = column ? valuesOf(column) : null;
  const ofName = new Map<string, Map<string, number>>();
  const sizes = new Map<string, number>();
  let isSum = false;
  names.forEach((name, row) => {
    const [part, much] = [parts[row] as string, value ? asNumber(value(row)) : 1];
    if (Number.isNaN(much)) return;
    const values = ofName.get(name) ?? new Map<string, number>();
    isSum ||= value !== null && values.has(part);
    values.set(part, (values.get(part) ?? 0) + much);
    ofName.set(name, values);
    sizes.set(part, (sizes.get(part) ?? 0) + Math.abs(much));
  });
  const ordered = [...sizes.keys()].sort((one, other) => (sizes.get(other) ?? 0) - (sizes.get(one) ?? 0));
  return { ofName, parts: ordered.slice(0, MOST_PARTS), hiddenParts: Math.max(ordered.length - MOST_PARTS, 0), isSum };
}

const total = (values: Map<string, number>): number => [...values.values()].reduce((sum, value) => sum + value, 0);

/** Bars of names, each parted by the values of another column: one after the other, or side by side. */
function drawParted(table: Table, choice: Choice, by: number, size: Size): Element {
  const { ofName, parts, hiddenParts, isSum } = partedValues(table, choice, by);
  const every = [...ofName];
  if (choice.y === null) every.sort(([, one], [, other]) => total(other) - total(one));
  const rows = every.slice(0, MOST_BARS);
  if (!rows.length) return h("p", { class: "hint" }, "No value can be drawn: all are missing.");
  const colours = coloursOfNames(table.schema.fields[by]?.name ?? "", parts);
  const values = rows.flatMap(([, of]) => parts.flatMap((part) => of.get(part) ?? []));
  const isStacked = choice.stacked && (min(values) ?? 0) >= 0; // what is below zero cannot stand on another
  const thickness = isStacked ? 22 : Math.max(8, 26 / Math.sqrt(parts.length));
  const block = (isStacked ? thickness : thickness * parts.length) + 8;
  const height = rows.length * block + 64;
  const { letters, left } = roomOf(rows.map(([name]) => name), size);
  const ends = isStacked ? rows.map(([, of]) => parts.reduce((sum, part) => sum + (of.get(part) ?? 0), 0)) : values;
  const x = scaleLinear([Math.min(0, min(ends) ?? 0), Math.max(0, max(ends) ?? 1)], [left, size.width - 76]).nice();
  const marks = rows.map(([name, of], place) => {
    const top = 16 + place * block;
    let sum = 0;
    const bars = parts.flatMap((part, row) => {
      const value = of.get(part);
      if (value === undefined) return [];
      const [start, end] = isStacked ? [x(sum), x(sum + value)] : [x(0), x(value)];
      sum += value;
      return [svg("g", {}, svg("title", {}, `${name}, ${part}: ${formatNumber(value)}`),
        svg("rect", {
          x: Math.min(start, end), y: top + (isStacked ? 0 : row * thickness), width: Math.max(Math.abs(end - start), 1),
          height: isStacked ? thickness : thickness - 1, fill: colours[row] as string,
        }))];
    });
    const middle = top + (block - 8) / 2;
    return svg("g", {}, ...bars,
      svg("text", { x: left - 8, y: middle, dy: "0.35em", "text-anchor": "end", class: "bar-name" }, shorten(name, letters)),
      ...(isStacked ? [svg("text", { x: x(sum) + 6, y: middle, dy: "0.35em", class: "bar-value" }, formatNumber(sum))] : []));
  });
  const fields = table.schema.fields;
  const [of, other] = [fields[choice.x]?.name ?? "", fields[by]?.name ?? ""];
  const what = choice.y === null ? "rows" : fields[choice.y]?.name ?? "";
  const notes = [[every.length - rows.length, of], [hiddenParts, other]] as const;
  const note = notes.flatMap(([count, name]) => (count > 0 ? `; ${formatCount(count)} more of ${name} are not shown` : [])).join("");
  const title = `${isSum ? "sum of " : ""}${what}${note}`;
  const said = rows.slice(0, 4).map(([name, values]) => `${name} ${parts.map((part) => `${part} ${formatNumber(values.get(part) ?? 0)}`).slice(0, 6).join(" ")}`).join(", ");
  const key = parts.map((part, place) => {
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.backgroundColor = colours[place] as string;
    return h("li", {}, swatch, part || "(empty)");
  });
  return h("div", {}, h("ul", { class: "chart-key", "aria-label": `Values of ${other}` }, ...key),
    frame({ width: size.width, height }, `${isStacked ? "Stacked" : "Grouped"} bars of ${title} by ${of} and ${other}: ${said}`,
      bottomAxis(x, { width: size.width, height }, height - 46, title), ...marks));
}

function drawHistogram(table: Table, place: number, size: Size): Element {
  const name = table.schema.fields[place]?.name ?? "";
  const values = numeric(table, place).filter((value) => Number.isFinite(value));
  const isDate = table.schema.fields[place] && sortOf(table.schema.fields[place]) === "date";
  const [least, most] = extent(values);
  if (least === undefined || most === undefined) return h("p", { class: "hint" }, `No value of ${name} can be drawn: all are missing.`);
  const spare = least === most ? Math.max(Math.abs(least) * 0.05, 0.5) : 0; // a single value is a bar in the middle
  const [low, high] = [least - spare, most + spare];
  const [domain, range] = [[low, high], [56, size.width - 24]];
  const x = (isDate ? scaleUtc(domain, range) : scaleLinear(domain, range)) as unknown as Scale;
  const bins = bin().domain([low, high]).thresholds(spare ? 9 : Math.min(60, Math.ceil(Math.sqrt(values.length)) + 1))(Array.from(values));
  const shown = (value: number): string => (isDate ? asText(new Date(value), "date") : formatNumber(value));
  const y = scaleLinear([0, max(bins, (group) => group.length) ?? 1], [size.height - 50, 28]).nice();
  const marks = bins.map((group) => {
    const [start, end] = [x(group.x0 ?? low), x(group.x1 ?? high)];
    return svg("g", {}, svg("title", {}, `${shown(group.x0 ?? 0)} to ${shown(group.x1 ?? 0)}: ${formatCount(group.length)}`),
      svg("rect", { x: start + 0.5, width: Math.max(end - start - 1, 0.8), y: y(group.length), height: Math.max(y(0) - y(group.length), 0), class: "mark" }));
  });
  return frame(size, `Histogram of ${name}: ${formatCount(values.length)} values from ${shown(least)} to ${shown(most)}`,
    leftAxis(y, size, 56, 28, size.height - 50, "rows"), ...marks, bottomAxis(x, size, size.height - 50, name));
}

function plane(table: Table, choice: Choice, size: Size) {
  const fields = table.schema.fields;
  const [xs, ys] = [numeric(table, choice.x), numeric(table, choice.y as number)];
  const isDate = sortOf(fields[choice.x]!) === "date";
  const finite = (values: Float64Array): [number, number] => {
    const [low = 0, high = 1] = extent(values, (value) => (Number.isFinite(value) ? value : undefined));
    return low === high ? [low - 1, high + 1] : [low, high];
  };
  const range: [number, number] = [64, size.width - 24];
  const x = (isDate ? scaleUtc(finite(xs), range) : scaleLinear(finite(xs), range).nice()) as unknown as Scale;
  const y = scaleLinear(finite(ys), [size.height - 50, 28]).nice();
  const names = [fields[choice.x]!.name, fields[choice.y as number]!.name] as const;
  const axes = [leftAxis(y, size, 64, 28, size.height - 50, names[1]), bottomAxis(x, size, size.height - 50, names[0])];
  return { xs, ys, x, y, names, axes };
}

function drawLine(table: Table, choice: Choice, size: Size): SVGElement {
  const { xs, ys, x, y, names, axes } = plane(table, choice, size);
  const order = Uint32Array.from(xs, (_, row) => row)
    .filter((row) => Number.isFinite(xs[row]) && Number.isFinite(ys[row]))
    .sort((one, other) => (xs[one] as number) - (xs[other] as number));
  const path = Array.from(order, (row, place) =>
    `${place ? "L" : "M"}${x(xs[row] as number).toFixed(1)},${y(ys[row] as number).toFixed(1)}`).join("");
  return frame(size, `Line of ${names[1]} over ${names[0]}, ${formatCount(order.length)} points`, ...axes, svg("path", { d: path, class: "line-mark" }));
}

function drawDots(table: Table, choice: Choice, size: Size): HTMLElement {
  const { xs, ys, x, y, names, axes } = plane(table, choice, size);
  const scale = window.devicePixelRatio || 1;
  const canvas = h("canvas", { width: Math.round(size.width * scale), height: Math.round(size.height * scale), "aria-hidden": "true" });
  canvas.style.width = `${size.width}px`;
  canvas.style.height = `${size.height}px`;
  const context = canvas.getContext("2d");
  if (context) {
    const radius = xs.length > 20_000 ? 1 : xs.length > 2000 ? 1.6 : 2.6;
    context.scale(scale, scale);
    context.globalAlpha = xs.length > 20_000 ? 0.35 : 0.65;
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    for (let row = 0; row < xs.length; row += 1) {
      context.beginPath();
      context.arc(x(xs[row] as number), y(ys[row] as number), radius, 0, 7);
      context.fill();
    }
  }
  const drawing = frame(size, `Points: ${names[1]} against ${names[0]}, ${formatCount(xs.length)} rows`, ...axes);
  return h("div", { class: "chart-layers" }, drawing, canvas);
}

export function drawChart(table: Table, choice: Choice, size: Size): Element {
  const of = table.schema.fields[choice.x]?.name ?? "";
  const isBars = choice.shape === "counts" || (choice.shape === "bars" && choice.y !== null);
  if (isBars && choice.by !== null && choice.by !== choice.x) return drawParted(table, choice, choice.by, size);
  if (choice.shape === "counts") {
    const bars = counted(table, choice.x);
    return drawBars(bars.slice(0, MOST_BARS), bars.length - MOST_BARS, size, "rows", of);
  }
  if (choice.shape === "bars" && choice.y !== null) {
    const column = table.getChildAt(choice.y);
    const values = column ? valuesOf(column) : null;
    const bars = words(table, choice.x).map((name, row) => ({ name, value: asNumber(values?.(row)) }));
    return drawBars(bars.slice(0, MOST_BARS), bars.length - MOST_BARS, size, table.schema.fields[choice.y]?.name ?? "", of);
  }
  if (choice.shape === "histogram" || choice.y === null) return drawHistogram(table, choice.x, size);
  return choice.shape === "line" ? drawLine(table, choice, size) : drawDots(table, choice, size);
}

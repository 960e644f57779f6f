// Charts as SVG, with a sentence that says what they show. Many points go onto a canvas beneath.
import type { Table } from "apache-arrow";
import { bin, extent, max, min } from "d3-array";
import { scaleBand, scaleLinear, scaleUtc } from "d3-scale";
import { h, svg } from "../dom";
import { formatCount, formatNumber } from "../format";
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

function drawBars(bars: readonly Bar[], hidden: number, size: Size, title: string, of: string): SVGSVGElement {
  const rowHeight = 24;
  const height = bars.length * rowHeight + 64;
  const room = Math.floor((size.width * 0.45 - 16) / LETTER_WIDTH);
  const letters = Math.min(Math.max(...bars.map(({ name }) => name.length)), room, 30);
  const left = Math.max(letters * LETTER_WIDTH + 16, 60);
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

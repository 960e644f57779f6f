// Filters beside the map: counts and histograms of vectors, each of what the others leave.
import { getColour, isAborted } from "../api";
import type { Axis } from "../contract";
import { h, iconButton, option, redraw, svg, toast } from "../dom";
import { formatCount, formatNumber } from "../format";
import { type Colouring, colouringOf } from "./colours";

const MOST_VALUES = 12;
const LEVELS = 255; // codes of numbers, after that of a missing value
const BINS = 51; // five levels each

interface Facet {
  readonly vector: string;
  readonly colouring: Colouring;
  allowed: Uint8Array | null; // 1 for each code that passes; null where all do
  range: readonly [number, number]; // of bins, both included
  counts: Uint32Array; // of each code, among the points that the other filters leave
}

export interface FacetListener {
  filtered(positions: Uint32Array | null): void;
}

export class Facets {
  readonly element: HTMLDetailsElement;
  private readonly chooser = h("select", { "aria-label": "Add a filter", change: () => void this.add(this.chooser.value) });
  private readonly list = h("div", { class: "facet-list" });
  private facets: Facet[] = [];
  private place: { readonly schema: string; readonly axis: Axis } | null = null;
  private loading = new AbortController();

  constructor(private readonly listener: FacetListener) {
    this.element = h("details", { class: "facets" }, h("summary", {}, "Filters"), this.chooser, this.list);
  }

  /** Offer the vectors of an axis; filters of another axis go. */
  offer(schema: string, axis: Axis): void {
    if (this.place?.schema === schema && this.place.axis === axis) return;
    this.loading.abort();
    this.loading = new AbortController();
    this.place = { schema, axis };
    this.facets = [];
    this.draw();
  }

  /** Let all values pass again, as something else chose the points. */
  reset(): void {
    if (!this.isFiltering) return;
    for (const facet of this.facets) [facet.allowed, facet.range] = [null, [0, BINS - 1]];
    this.count();
    this.draw();
  }

  get isFiltering(): boolean {
    return this.facets.some(({ allowed }) => allowed !== null);
  }

  private async add(vector: string): Promise<void> {
    const place = this.place;
    if (!place || !vector) return;
    const { signal } = this.loading;
    try {
      const colouring = colouringOf(await getColour(place.schema, place.axis.name, { vector }, signal), vector);
      if (signal.aborted || this.facets.some((facet) => facet.vector === vector)) return;
      this.facets.push({ vector, colouring, allowed: null, range: [0, BINS - 1], counts: new Uint32Array(0) });
      this.count();
    } catch (error) {
      if (!isAborted(error)) toast(error instanceof Error ? error.message : String(error), { problem: true });
    }
    this.draw();
  }

  private remove(facet: Facet): void {
    this.facets = this.facets.filter((one) => one !== facet);
    this.changed(facet.allowed !== null);
  }

  private changed(isOther: boolean): void {
    const passing = this.count();
    this.draw();
    if (isOther) this.listener.filtered(this.isFiltering ? passing : null);
  }

  /** Count each facet's values among the points that the others leave; return the points that all leave. */
  private count(): Uint32Array {
    const facets = this.facets;
    for (const facet of facets) facet.counts = new Uint32Array(facet.colouring.palette.length / 4);
    const points = facets[0]?.colouring.codes.length ?? 0;
    const passing = new Uint32Array(points);
    let found = 0;
    for (let point = 0; point < points; point += 1) {
      let failed: Facet | null = null;
      let failures = 0;
      for (const facet of facets) {
        if (!facet.allowed || facet.allowed[facet.colouring.codes[point] as number]) continue;
        failures += 1;
        failed = facet;
      }
      if (failures === 0) passing[found++] = point;
      if (failures > 1) continue;
      for (const facet of failed ? [failed] : facets) facet.counts[facet.colouring.codes[point] as number]! += 1;
    }
    return passing.slice(0, found);
  }

  private draw(): void {
    const vectors = (this.place?.axis.vectors ?? []).filter(({ name, kind }) =>
      ["number", "string", "boolean", "date"].includes(kind) && !this.facets.some(({ vector }) => vector === name));
    this.chooser.replaceChildren(option("", "Add a filter…", true), ...vectors.map(({ name }) => option(name, name)));
    this.chooser.value = "";
    redraw(this.list, ...this.facets.map((facet) => h("section", { class: "facet", "aria-label": `Filter of ${facet.vector}` },
      h("h4", {}, h("span", { title: facet.vector }, facet.vector), iconButton("close", `Remove the filter of ${facet.vector}`, () => this.remove(facet))),
      ...(facet.colouring.range ? this.histogram(facet, facet.colouring.range) : [this.values(facet)]))));
  }

  private values(facet: Facet): HTMLElement {
    const categories = [...(facet.colouring.categories ?? [])].sort((one, other) => other.count - one.count);
    const shown = categories.slice(0, MOST_VALUES);
    const most = Math.max(...shown.map(({ code }) => facet.counts[code] ?? 0), 1);
    const items = shown.map(({ code, name }) => {
      const count = facet.counts[code] ?? 0;
      const bar = h("span", { class: "top-bar", "aria-hidden": "true" });
      bar.style.width = `${(100 * count) / most}%`;
      const label = name || "(empty)";
      return h("li", {}, bar, h("button", {
        type: "button", class: "facet-value", "aria-pressed": String(Boolean(facet.allowed?.[code])), "aria-label": `${facet.vector} ${label}`,
        click: () => this.toggle(facet, code),
      }, h("span", { class: "top-name" }, label), h("span", { class: "top-count" }, formatCount(count))));
    });
    const rest = categories.length - shown.length;
    return h("ul", { class: "top-values" }, ...items, ...(rest > 0 ? [h("li", { class: "hint" }, `and ${formatCount(rest)} more`)] : []));
  }

  private toggle(facet: Facet, code: number): void {
    facet.allowed ??= new Uint8Array(facet.colouring.palette.length / 4);
    facet.allowed[code] = facet.allowed[code] ? 0 : 1;
    if (!facet.allowed.includes(1)) facet.allowed = null;
    this.changed(true);
  }

  private histogram(facet: Facet, { low, high }: { readonly low: number; readonly high: number }): Node[] {
    const bins = new Array<number>(BINS).fill(0);
    facet.counts.forEach((count, code) => { if (code) bins[Math.floor(((code - 1) * BINS) / LEVELS)]! += count; });
    const most = Math.max(...bins, 1);
    const [first, last] = facet.range;
    const edge = (bin: number): number => low + ((high - low) * Math.min(Math.max((bin * LEVELS) / BINS - 0.5, 0), LEVELS - 1)) / (LEVELS - 1);
    const text = `${formatNumber(edge(first))} to ${formatNumber(edge(last + 1))}`;
    const bars = bins.map((count, place) => {
      const height = count ? Math.max(1.5, (36 * count) / most) : 0;
      return svg("rect", { x: place * 4, y: 36 - height, width: 3, height, class: place < first || place > last ? "mark left-out" : "mark" });
    });
    const slider = (label: string, value: number, range: (bin: number) => readonly [number, number]): HTMLInputElement =>
      h("input", {
        type: "range", min: 0, max: BINS - 1, value, "aria-label": `${label} of ${facet.vector}`, "aria-valuetext": formatNumber(edge(label === "Least" ? value : value + 1)),
        change: (event: Event) => this.limit(facet, range(Number((event.target as HTMLInputElement).value))),
      });
    return [
      svg("svg", { viewBox: `0 0 ${BINS * 4} 36`, class: "tiny-histogram", role: "img", "aria-label": `${facet.vector}: ${text}`, preserveAspectRatio: "none" }, ...bars),
      h("div", { class: "facet-range" },
        slider("Least", first, (bin) => [bin, Math.max(bin, last)]), slider("Most", last, (bin) => [Math.min(first, bin), bin])),
      h("p", { class: "facts" }, text),
    ];
  }

  private limit(facet: Facet, range: readonly [number, number]): void {
    const [first, last] = range;
    facet.range = range;
    facet.allowed = first === 0 && last === BINS - 1 ? null
      : Uint8Array.from({ length: facet.colouring.palette.length / 4 }, (_, code) => {
        const bin = Math.floor(((code - 1) * BINS) / LEVELS);
        return code && bin >= first && bin <= last ? 1 : 0;
      });
    this.changed(true);
  }
}

// The legend: categories with counts, of which any can be picked out; or the range of numbers.
import { h, svg } from "../dom";
import { formatCount, formatNumber } from "../format";
import type { Category, Colouring } from "./colours";
import { viridisCss } from "./colours";

const MOST_SHOWN = 300;

export interface LegendListener {
  shown(codes: ReadonlySet<number> | null): void;
  select(codes: ReadonlySet<number>): void;
}

function swatch(colour: string): HTMLElement {
  const element = h("span", { class: "swatch", "aria-hidden": "true" });
  element.style.backgroundColor = colour;
  return element;
}

function ramp(bins: readonly number[], low: number, high: number, label: string): SVGSVGElement {
  const most = Math.max(...bins, 1);
  const bars = bins.map((count, place) => {
    const height = count ? Math.max(2, 30 * Math.sqrt(count / most)) : 0;
    return svg("rect", { x: place * 8, y: 32 - height, width: 7.4, height, fill: viridisCss((place + 0.5) / bins.length) });
  });
  const strip = bins.map((_, place) =>
    svg("rect", { x: place * 8, y: 35, width: 8.1, height: 7, fill: viridisCss((place + 0.5) / bins.length) }));
  return svg("svg", {
    viewBox: `0 0 ${bins.length * 8} 43`, class: "ramp", role: "img", preserveAspectRatio: "none",
    "aria-label": `${label}: from ${formatNumber(low)} to ${formatNumber(high)}`,
  }, ...bars, ...strip);
}

export class Legend {
  readonly element = h("div", { class: "legend" });
  private picked = new Set<number>();

  constructor(private readonly listener: LegendListener) {}

  show(colouring: Colouring | null): void {
    this.picked = new Set();
    this.element.replaceChildren();
    if (!colouring || !colouring.label) return;
    this.element.append(h("h3", { title: colouring.label }, colouring.label));
    if (colouring.categories) this.showCategories(colouring, colouring.categories);
    else if (colouring.range) {
      const { low, high, bins } = colouring.range;
      this.element.append(ramp(bins, low, high, colouring.label),
        h("div", { class: "ramp-ends" }, h("span", {}, formatNumber(low)), h("span", {}, formatNumber(high))));
    }
    if (colouring.missing) {
      this.element.append(h("p", { class: "missing-count" }, swatch("rgb(150, 155, 163)"), `missing: ${formatCount(colouring.missing)}`));
    }
  }

  private showCategories(colouring: Colouring, categories: readonly Category[]): void {
    const select = h("button", { type: "button", class: "small", hidden: true, click: () => this.listener.select(new Set(this.picked)) }, "Select these");
    const shown = categories.length > MOST_SHOWN ? [...categories].sort((one, other) => other.count - one.count).slice(0, MOST_SHOWN) : categories;
    const buttons = shown.map(({ code, name, count, colour }) =>
      h("li", {}, h("button", {
        type: "button", class: "legend-entry", "aria-pressed": "false", title: `${name}: ${formatCount(count)}`,
        click: (event: MouseEvent) => {
          if (!this.picked.delete(code)) this.picked.add(code);
          (event.currentTarget as HTMLElement).setAttribute("aria-pressed", String(this.picked.has(code)));
          this.element.classList.toggle("picking", this.picked.size > 0);
          select.hidden = this.picked.size === 0;
          this.listener.shown(this.picked.size ? this.picked : null);
        },
      }, swatch(colour), h("span", { class: "legend-name" }, name || "(empty)"), h("span", { class: "legend-count" }, formatCount(count)))));
    this.element.classList.remove("picking");
    this.element.append(h("ul", { "aria-label": `Categories of ${colouring.label}` }, ...buttons));
    if (categories.length > MOST_SHOWN) this.element.append(h("p", { class: "hint" }, `and ${formatCount(categories.length - MOST_SHOWN)} more`));
    this.element.append(select);
  }
}

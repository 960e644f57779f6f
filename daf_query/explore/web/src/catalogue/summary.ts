// The summary of one vector: range and histogram, or the most frequent values. Asked for when it is opened.
import type { Summary } from "../contract";
import { h, svg } from "../dom";
import { formatCount, formatNumber } from "../format";

const FEW = 12; // distinct numbers that are listed rather than drawn as a histogram

const shown = (value: string | number | boolean | null): string =>
  value === null ? "NULL" : typeof value === "number" ? formatNumber(value) : String(value);

function histogram(bins: readonly number[], label: string): SVGSVGElement {
  const most = Math.max(...bins, 1);
  const bars = bins.map((count, place) => {
    const height = count ? Math.max(1.5, (36 * count) / most) : 0;
    return svg("rect", { x: (place * 200) / bins.length, y: 36 - height, width: Math.max(200 / bins.length - 1, 1), height, class: "mark" });
  });
  return svg("svg", { viewBox: "0 0 200 36", class: "tiny-histogram", role: "img", "aria-label": label, preserveAspectRatio: "none" }, ...bars);
}

function topValues(top: NonNullable<Summary["top"]>, count: number): HTMLElement {
  const most = Math.max(...top.map(([, frequency]) => frequency), 1);
  const items = top.slice(0, 8).map(([value, frequency]) => {
    const bar = h("span", { class: "top-bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * frequency) / most}%`;
    return h("li", { title: `${shown(value)}: ${((100 * frequency) / Math.max(count, 1)).toFixed(1)} %` }, bar,
      h("span", { class: "top-name" }, shown(value) || "(empty)"), h("span", { class: "top-count" }, formatCount(frequency)));
  });
  return h("ul", { class: "top-values" }, ...items);
}

export function drawSummary(summary: Summary): Node[] {
  const facts: string[] = [];
  if (summary.min !== null && summary.max !== null) facts.push(`${shown(summary.min)} to ${shown(summary.max)}`);
  if (summary.distinct !== null && summary.distinct !== undefined) facts.push(`${formatCount(summary.distinct)} distinct`);
  if (summary.nulls) facts.push(`${formatCount(summary.nulls)} missing`);
  const label = `Histogram: ${facts.join(", ")}`;
  const isRange = Boolean(summary.bins?.length) && (!summary.top?.length || (summary.distinct ?? Infinity) > FEW);
  return [
    ...(isRange && summary.bins ? [histogram(summary.bins, label)] : []),
    ...(!isRange && summary.top?.length ? [topValues(summary.top, summary.count)] : []),
    h("p", { class: "facts" }, facts.join(" · ")),
  ];
}

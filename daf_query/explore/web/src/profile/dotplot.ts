// Dot plot of a profile: a dot for each group and gene, its size the fraction, its colour the mean.
import { extent, max } from "d3-array";
import { getProfile, isAborted } from "../api";
import type { Catalogue, DataSet, Profile } from "../contract";
import { announce, h, option, svg } from "../dom";
import { entriesOf, formatCount, formatNumber, plural } from "../format";
import { entryField } from "../gene_input";
import { viridisCss } from "../map/colours";
import { matricesOf } from "../sql";

const CELL = 26;
const LEAST_CELL = 16; // between columns, where the room is small
const KEY_LINE = 22; // of the two lines above the dots that say what sizes and colours mean
const KEY_WIDTH = 320;
const PADDING = 40; // around the dots, with a scroll bar
const MOST_GROUPS = 300;

/** Draw the dots; the columns are narrower where they would not fit into the room. */
export function drawDotPlot(profile: Profile, axis: string, room: number): SVGSVGElement {
  const groups = profile.groups.slice(0, MOST_GROUPS);
  const left = Math.max(...groups.map((name) => Math.min(name.length, 30)), 4) * 7 + 70;
  const letters = max(profile.columns, (name) => Math.min(name.length, 20)) ?? 3;
  const head = 2 * KEY_LINE + letters * 6 + 16;
  const lean = letters * 3.5; // how far names reach to the right
  const step = Math.min(CELL, Math.max(LEAST_CELL, (room - left - lean) / profile.columns.length));
  const radius = (fraction: number): number => (step / 2 - 1) * Math.sqrt(fraction);
  const right = left + profile.columns.length * step;
  const means = profile.mean.flat().filter((value): value is number => value !== null && Number.isFinite(value));
  const [low = 0, high = 0] = extent(means);
  const tone = (value: number): number => (high > low ? (value - low) / (high - low) : 0.5);
  const width = Math.max(right + lean, KEY_WIDTH);
  const height = head + groups.length * CELL + 16;
  const marks: SVGElement[] = [];
  groups.forEach((group, row) => {
    const y = head + (row + 0.5) * CELL;
    marks.push(svg("line", { x1: left, x2: right, y1: y, y2: y, class: "grid-line" }),
      svg("text", { x: left - 10, y, dy: "0.35em", "text-anchor": "end" }, group.length > 30 ? `${group.slice(0, 29)}…` : group || "(empty)",
        svg("tspan", { class: "faint" }, `  ${formatCount(profile.sizes[row] ?? 0)}`)));
    profile.columns.forEach((column, place) => {
      const [mean, fraction] = [profile.mean[row]?.[place] ?? null, profile.fraction[row]?.[place] ?? null];
      if (mean === null || fraction === null) return;
      const title = `${column} in ${group}: mean ${formatNumber(mean)}, in ${(100 * fraction).toFixed(0)} %`;
      marks.push(svg("circle", { cx: left + (place + 0.5) * step, cy: y, r: Math.max(0.6, radius(fraction)), fill: viridisCss(tone(mean)) }, svg("title", {}, title)));
    });
  });
  const names = profile.columns.map((column, place) => {
    const x = left + (place + 0.5) * step;
    return svg("text", { transform: `translate(${x + 4},${head - 8}) rotate(-60)` }, column.length > 20 ? `${column.slice(0, 19)}…` : column);
  });
  const entry = (x: number, line: number, content: string): SVGElement => svg("text", { x, y: KEY_LINE * (line + 0.5), dy: "0.35em" }, content);
  const sizes = [0.25, 0.5, 1].flatMap((fraction, place) => [
    svg("circle", { cx: 12 + place * 66, cy: KEY_LINE / 2, r: radius(fraction), class: "key-dot" }),
    entry(28 + place * 66, 0, `${100 * fraction} %${fraction < 1 ? "" : ` of ${entriesOf(axis)}`}`)]);
  const lowest = `mean ${formatNumber(low)}`;
  const ramp = Array.from({ length: 30 }, (_, place) =>
    svg("rect", { x: 14 + lowest.length * 7 + place * 3.2, y: KEY_LINE * 1.5 - 5, width: 3.4, height: 10, fill: viridisCss(place / 29) }));
  return svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, class: "chart dot-plot", role: "img",
    "aria-label": `Dot plot of ${profile.columns.join(", ")} in ${plural(profile.groups.length, "group")}; the table below has the numbers`,
  }, ...marks, ...names, ...sizes, entry(2, 1, lowest), ...ramp, entry(118 + lowest.length * 7, 1, formatNumber(high)));
}

function numbers(profile: Profile): HTMLElement {
  const cell = (value: number | null | undefined): string => (value === null || value === undefined ? "" : formatNumber(value));
  return h("details", { class: "numbers" }, h("summary", {}, "Mean values as a table"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Mean values" },
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "group"), ...profile.columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, ...profile.groups.slice(0, MOST_GROUPS).map((group, row) => h("tr", {}, h("th", { scope: "row" }, group),
          ...profile.columns.map((_, place) => h("td", {}, cell(profile.mean[row]?.[place])))))))));
}

export class DotPlotPanel {
  readonly element = h("div", { class: "dotplot-panel" });
  private loading: AbortController | null = null;

  show(catalogue: Catalogue): void {
    const first = catalogue.data_sets.flatMap((data) => data.axes.map((axis) => ({ data, axis: axis.name })))
      .find(({ data, axis }) => matricesOf(data, axis).length && data.axes.some(({ name, embeddings }) => name === axis && embeddings.length));
    const other = catalogue.data_sets.find((data) => data.matrices.length);
    if (first) this.offer(first.data, first.axis, null);
    else if (other) this.offer(other, (other.matrices[0] as { rows: string }).rows, null);
    else this.element.replaceChildren(h("p", { class: "hint" }, "The data have no matrix."));
  }
  /** Offer the profiles of a matrix over an axis. */
  offer(data: DataSet, axis: string, matrix: { name: string; columns: string } | null): void {
    const matrices = matricesOf(data, axis);
    const vectors = data.axes.find(({ name }) => name === axis)?.vectors.filter(({ kind }) => kind === "string" || kind === "boolean") ?? [];
    const preferred = vectors.find(({ name }) => /type|label|cluster|louvain|leiden/i.test(name)) ?? vectors[0];
    const wanted = Math.max(matrices.findIndex(({ name, columns }) => (matrix ? name === matrix.name && columns === matrix.columns : /raw/i.test(columns))), 0);
    const which = h("select", {}, ...matrices.map(({ name, columns }, place) => option(String(place), `${columns}.${name}`, place === wanted)));
    const by = h("select", {}, ...vectors.map(({ name }) => option(name, name, name === preferred?.name)));
    const of = (): { name: string; columns: string } => matrices[Number(which.value)] as { name: string; columns: string };
    const { input, list } = entryField("genes, separated by commas", () => ({ schema: data.schema, axis: of().columns }), { several: true });
    const place = h("div", { class: "dotplot-place" }, h("p", { class: "hint" }, `How much of each gene is in each group of ${entriesOf(axis)}: name some genes.`));
    const submit = async (event: Event): Promise<void> => {
      event.preventDefault();
      const columns = input.value.split(",").map((name) => name.trim()).filter(Boolean);
      if (!columns.length) return input.focus();
      place.replaceChildren(h("p", { class: "hint" }, "computing…"));
      this.loading?.abort();
      const loading = new AbortController();
      this.loading = loading;
      try {
        const profile = await getProfile({
          schema: data.schema, rows_axis: axis, columns_axis: of().columns, matrix: of().name, by: by.value, columns, rows: null,
        }, loading.signal);
        const hidden = profile.groups.length - MOST_GROUPS;
        place.replaceChildren(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Dot plot" }, drawDotPlot(profile, axis, place.clientWidth - PADDING)),
          ...(hidden > 0 ? [h("p", { class: "hint" }, `${plural(hidden, "group")} more are not shown.`)] : []), numbers(profile));
        announce("the dot plot is drawn");
      } catch (error) {
        if (isAborted(error)) return; // a newer one takes its place
        place.replaceChildren(h("p", { class: "message problem", role: "alert" }, error instanceof Error ? error.message : String(error)));
      }
    };
    this.element.replaceChildren(h("form", { class: "chart-controls", submit: (event: Event) => void submit(event) },
      h("label", {}, h("span", {}, "Matrix"), which), h("label", {}, h("span", {}, "Groups"), by),
      h("label", { class: "grow" }, h("span", {}, "Genes"), input, list), h("button", { type: "submit", class: "primary small" }, "Draw")), place);
    if (!vectors.length) place.replaceChildren(h("p", { class: "hint" }, `${axis} has no vector to group by.`));
  }
}

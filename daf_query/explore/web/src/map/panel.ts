// The right side: an embedding as a scatter, its colours and legend, and what is selected in it.
import { deleteSelection, getColour, getPoints, isAborted, setSelection } from "../api";
import type { Axis, Catalogue, ColourBy, DataSet } from "../contract";
import { announce, h, iconButton, option, toast } from "../dom";
import { countOf, formatCount, plural } from "../format";
import { ColourControl } from "./colour_control";
import { type Colouring, colouringOf, onGround, plainColouring, recoloured } from "./colours";
import { Facets } from "./facets";
import { combine } from "./find";
import { Legend } from "./legend";
import { type Combining, Scatter } from "./scatter";

export interface MapState {
  readonly schema: string;
  readonly axis: string;
  readonly embedding: string;
  readonly colour: ColourBy | null;
}

export interface Selection {
  readonly schema: string;
  readonly axis: string;
  readonly positions: Uint32Array;
}

export interface MapListener {
  changed(): void;
  otherAxis(): void;
  selected(selection: Selection | null): void;
  extract(): void;
  save(): void;
}

export function colourLabel(colour: ColourBy | null): string {
  if (!colour) return "";
  if ("vector" in colour) return colour.vector;
  return "sql" in colour ? colour.sql : colour.gene.name;
}

/** The embedding to start with: a UMAP or t-SNE, of the longest axis. */
export function firstEmbedding(catalogue: Catalogue): { schema: string; axis: string; embedding: string } | null {
  const order = (name: string): number => (/umap/i.test(name) ? 0 : /tsne|t_sne/i.test(name) ? 1 : /pca|pc/i.test(name) ? 3 : 2);
  const places = catalogue.data_sets.flatMap(({ schema, axes }) => axes.flatMap((axis) => axis.embeddings.map((name) =>
    ({ schema, axis: axis.name, embedding: name, length: axis.length ?? 0 }))));
  places.sort((one, other) => order(one.embedding) - order(other.embedding) || other.length - one.length);
  return places[0] ?? null;
}

/** The column to colour by at first: something like a cell type. */
export function firstColour(axis: Axis): ColourBy | null {
  const words = axis.vectors.filter(({ kind }) => kind === "string" || kind === "boolean");
  const vector = words.find(({ name }) => /type|label|cluster|louvain|leiden/i.test(name)) ?? words[0];
  return vector ? { vector: vector.name } : null;
}

export class MapPanel {
  readonly element: HTMLElement;
  state: MapState | null = null;
  selection: Selection | null = null;
  private catalogue: Catalogue | null = null;
  private readonly scatter: Scatter | null;
  private readonly legend: Legend;
  private readonly colour: ColourControl;
  private readonly facets = new Facets({ filtered: (positions) => void this.filter(positions) });
  private readonly chooser = h("select", { class: "wide", "aria-label": "Embedding", change: () => this.chooseEmbedding() });
  private readonly note = h("div", { class: "map-note", role: "status" });
  private readonly litNote = h("span", { class: "lit-note" });
  private readonly litBar = h("div", { class: "lit-bar", role: "group", "aria-label": "Highlighted points", hidden: true }, this.litNote,
    h("button", { type: "button", class: "small", title: "Show all points alike (Escape)", click: () => this.showAll() }, "Show all"));
  private readonly bar = h("div", { class: "selection-bar", role: "group", "aria-label": "Selection", hidden: true });
  private readonly lassoButton: HTMLButtonElement;
  private colouring: Colouring | null = null;
  private loading: AbortController | null = null;
  private sending = 0;
  private lit: Uint32Array | null = null;

  constructor(private readonly listener: MapListener) {
    this.colour = new ColourControl((colour) => void this.chooseColour(colour));
    this.legend = new Legend({
      shown: (codes) => this.scatter?.showCodes(codes),
      select: (codes) => this.selectCodes(codes),
    });
    this.lassoButton = iconButton("lasso", "Lasso (L): draw around points; Shift adds, Alt removes", () => this.scatter?.setLasso(!this.scatter.lasso),
      { "aria-pressed": "false" });
    onGround(() => this.recolour());
    let view: Node;
    try {
      this.scatter = new Scatter({
        selected: (positions, combining) => void this.select(positions, combining),
        picked: (position) => { if (position !== null) void this.select(Uint32Array.of(position), "replace"); },
        modeChanged: (lasso) => this.lassoButton.setAttribute("aria-pressed", String(lasso)),
        escaped: () => void this.clearSelection(),
      });
      view = h("div", { class: "map-view" }, this.scatter.element, this.note, this.tools(), this.litBar);
    } catch (error) {
      this.scatter = null;
      view = h("p", { class: "hint" }, error instanceof Error ? error.message : String(error));
    }
    this.element = h("section", { class: "map", "aria-label": "Embedding" },
      h("div", { class: "map-controls" },
        h("label", { class: "control" }, h("span", { class: "control-label" }, "Map"), this.chooser), this.colour.element),
      view, this.bar, this.legend.element, this.facets.element);
  }

  private tools(): HTMLElement {
    const scatter = this.scatter as Scatter;
    return h("div", { class: "map-tools", role: "toolbar", "aria-label": "Tools of the map", "aria-orientation": "vertical" },
      this.lassoButton,
      iconButton("plus", "Zoom in (+)", () => scatter.zoomBy(1.4)),
      iconButton("minus", "Zoom out (-)", () => scatter.zoomBy(1 / 1.4)),
      iconButton("fit", "All in view (0)", () => scatter.fit()),
      iconButton("image", "Save the picture", () => void this.savePicture()));
  }

  /** How many points there are. */
  get count(): number {
    return this.colouring?.codes.length ?? 0;
  }

  setCatalogue(catalogue: Catalogue): void {
    this.catalogue = catalogue;
    const groups = catalogue.data_sets.flatMap((data) => data.axes.filter(({ embeddings }) => embeddings.length).map((axis) => {
      const group = h("optgroup", { label: catalogue.data_sets.length > 1 ? `${data.schema}.${axis.name}` : axis.name });
      group.append(...axis.embeddings.map((name) => option(JSON.stringify([data.schema, axis.name, name]), name)));
      return group;
    }));
    this.chooser.replaceChildren(...groups);
    this.element.classList.toggle("without-map", !groups.length);
    if (!groups.length) this.note.textContent = "No axis has an embedding (a matrix such as X_umap, or two vectors such as umap_1 and umap_2).";
  }

  private places(state: MapState): { data: DataSet; axis: Axis } | null {
    const data = this.catalogue?.data_sets.find(({ schema }) => schema === state.schema);
    const axis = data?.axes.find(({ name }) => name === state.axis);
    return data && axis ? { data, axis } : null;
  }

  private chooseEmbedding(): void {
    const [schema, axis, embedding] = JSON.parse(this.chooser.value) as [string, string, string];
    const before = this.state;
    const keep = before && before.schema === schema && before.axis === axis;
    const found = this.places({ schema, axis, embedding, colour: null });
    void this.show({ schema, axis, embedding, colour: keep ? before.colour : found ? firstColour(found.axis) : null }).then(() => this.listener.changed());
  }

  /** Colour by something else, as the list of vectors and the control do. */
  async chooseColour(colour: ColourBy | null): Promise<void> {
    if (!this.state) return;
    if (await this.show({ ...this.state, colour })) this.listener.changed();
  }

  /** Let the user name a gene of a matrix to colour by. */
  offerGene(matrix: { readonly name: string; readonly columns: string }): void {
    this.colour.offerGene(matrix);
  }

  /** Show an embedding with a colour. Returns whether it is shown. */
  async show(state: MapState): Promise<boolean> {
    const place = this.places(state);
    if (!place || !this.scatter) return false;
    const before = this.state;
    const samePoints = before?.schema === state.schema && before.axis === state.axis && before.embedding === state.embedding;
    this.loading?.abort();
    const loading = new AbortController();
    this.loading = loading;
    this.chooser.value = JSON.stringify([state.schema, state.axis, state.embedding]);
    this.note.textContent = samePoints ? "colouring…" : "loading…";
    try {
      const [points, colouring] = await Promise.all([
        samePoints ? null : getPoints(state.schema, state.axis, state.embedding, loading.signal),
        this.load(state, place.axis.length ?? 0, loading.signal),
      ]);
      if (this.loading !== loading) return false;
      this.use(state, place, points as Float32Array<ArrayBuffer> | null, colouring);
      return true;
    } catch (error) {
      if (this.loading !== loading || isAborted(error)) return false;
      const message = error instanceof Error ? error.message : String(error);
      this.note.textContent = "";
      toast(message, { problem: true });
      const shown = before && this.places(before);
      if (shown) {
        this.chooser.value = JSON.stringify([before.schema, before.axis, before.embedding]);
        this.colour.show(shown.data, shown.axis.name, before.colour);
      } else await this.fallBack(state);
      return false;
    }
  }

  /** What a link asked for cannot be had: show the points alone. */
  private async fallBack(state: MapState): Promise<void> {
    if (state.colour) await this.show({ ...state, colour: null });
  }

  private recolour(): void {
    if (!this.colouring?.range) return;
    this.colouring = recoloured(this.colouring);
    this.scatter?.setColours(this.colouring);
    this.legend.show(this.colouring);
  }

  private async load(state: MapState, count: number, signal: AbortSignal): Promise<Colouring> {
    if (!state.colour) return plainColouring(count);
    return colouringOf(await getColour(state.schema, state.axis, state.colour, signal), colourLabel(state.colour));
  }

  private use(state: MapState, place: { data: DataSet; axis: Axis }, points: Float32Array<ArrayBuffer> | null, colouring: Colouring): void {
    const otherAxis = this.state !== null && (this.state.schema !== state.schema || this.state.axis !== state.axis);
    if (otherAxis) this.listener.otherAxis();
    this.state = state;
    this.colouring = colouring;
    if (points) this.scatter?.setPoints(points, colouring, () => performance.mark("daf-first-picture"));
    else this.scatter?.setColours(colouring);
    this.legend.show(colouring);
    this.colour.show(place.data, place.axis.name, state.colour);
    this.facets.offer(state.schema, place.axis);
    this.note.textContent = this.scatter && !this.scatter.hasPlaces ? `No ${place.axis.name} has a place in ${state.embedding}.` : "";
    const label = `${state.embedding}: ${plural(place.axis.length ?? 0, "point")} of ${place.axis.name}`
      + (state.colour ? `, coloured by ${colourLabel(state.colour)}` : "");
    this.scatter?.canvas.setAttribute("aria-label", `${label}. Arrow keys move, plus and minus zoom, S selects what is in view, Escape clears.`);
    this.element.dataset["shown"] = colourLabel(state.colour);
    announce(label);
    if (otherAxis && this.selection) void this.clearSelection();
    else if (points && this.selection) this.light(this.selection.positions, "");
    else if (points) this.light(otherAxis ? null : this.lit, otherAxis ? "" : this.litNote.textContent);
  }

  /** Light the points at these positions; null lights none. */
  light(positions: Uint32Array | null, label: string): void {
    const shown = positions && positions.length ? positions : null;
    this.lit = shown;
    this.scatter?.light(shown);
    this.litNote.textContent = shown ? label : "";
    this.litBar.hidden = !this.litNote.textContent;
  }

  private showAll(): void {
    this.light(null, "");
    this.scatter?.canvas.focus(); // the button is gone
    announce("all points are shown alike");
  }

  /** Select what the filters leave; without filters, nothing. */
  private async filter(positions: Uint32Array | null): Promise<void> {
    if (positions?.length) return this.select(positions, "replace", { byFilters: true });
    await this.clearSelection({ byFilters: true });
    if (positions) announce("no point is left");
  }

  private async select(positions: Uint32Array, combining: Combining, { byFilters = false } = {}): Promise<void> {
    const state = this.state;
    if (!state) return;
    if (!byFilters) this.facets.reset();
    const before = this.selection?.positions;
    const combined = !before || combining === "replace" ? positions : combine(before, positions, { remove: combining === "remove" });
    if (!combined.length) return this.clearSelection();
    this.sending += 1;
    const request = this.sending;
    try {
      await setSelection(state.schema, state.axis, combined);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), { problem: true });
      return;
    }
    if (request !== this.sending) return;
    this.selection = { schema: state.schema, axis: state.axis, positions: combined };
    this.light(combined, "");
    this.drawBar();
    this.listener.selected(this.selection);
  }

  private selectCodes(codes: ReadonlySet<number>): void {
    const positions: number[] = [];
    this.colouring?.codes.forEach((code, position) => { if (codes.has(code)) positions.push(position); });
    void this.select(Uint32Array.from(positions), "replace");
  }

  async clearSelection({ byFilters = false } = {}): Promise<void> {
    this.sending += 1;
    if (!byFilters) this.facets.reset();
    const had = this.selection !== null;
    this.selection = null;
    this.light(null, "");
    this.drawBar();
    if (!had) return;
    announce("nothing is selected");
    if (!document.activeElement || document.activeElement === document.body) this.scatter?.canvas.focus();
    this.listener.selected(null);
    await deleteSelection().catch(() => undefined);
  }

  private drawBar(): void {
    const selection = this.selection;
    this.bar.hidden = !selection;
    if (!selection) return this.bar.replaceChildren();
    const text = `${formatCount(selection.positions.length)} of ${countOf(this.count, selection.axis)} selected`;
    this.bar.replaceChildren(
      h("strong", {}, text),
      h("button", { type: "button", class: "small", click: () => this.listener.extract() }, "Extract…"),
      ...(this.catalogue?.writable ? [h("button", { type: "button", class: "small", click: () => this.listener.save() }, "Save as vector…")] : []),
      h("button", { type: "button", class: "small", click: () => void this.clearSelection() }, "Clear"));
    announce(text);
  }

  private async savePicture(): Promise<void> {
    const blob = await this.scatter?.picture();
    if (!blob) return;
    const link = h("a", { href: URL.createObjectURL(blob), download: `${this.state?.embedding ?? "map"}.png` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}

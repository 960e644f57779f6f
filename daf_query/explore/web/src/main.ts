// The page: its parts, and how they talk to each other.
import { getCatalogue, getRows, getSelectionTable, getSentRows, ServerError, takeToken } from "./api";
import { CataloguePanel } from "./catalogue/panel";
import type { Axis, Catalogue, ColourBy, DataSet, Matrix } from "./contract";
import { openExtract } from "./dialogs/extract";
import { openHelp } from "./dialogs/help";
import { openSave } from "./dialogs/save";
import { h, iconButton, svg, toast } from "./dom";
import { plural, shortPath } from "./format";
import { separator } from "./layout";
import { type LinkState, readLink, writeLink } from "./link";
import { firstColour, firstEmbedding, MapPanel, type MapState, type Selection } from "./map/panel";
import { DotPlotPanel } from "./profile/dotplot";
import { ResultPanel } from "./result/panel";
import { chooses, identifier, literal, mentions, tableName, usesSelection, withSelection } from "./sql";

/** An expression that is the name of a vector is that vector, as `daf explore --color` names it. */
function plainColour(colour: ColourBy | null, axis: Axis): ColourBy | null {
  if (!colour || !("sql" in colour)) return colour;
  return axis.vectors.some(({ name }) => name === colour.sql) ? { vector: colour.sql } : colour;
}

class Explorer {
  private catalogue: Catalogue | null = null;
  private readonly map: MapPanel;
  private readonly list: CataloguePanel;
  private readonly dotPlot = new DotPlotPanel();
  private readonly result: ResultPanel;
  private lighting: AbortController | null = null;
  private narrowed: { before: string; sql: string } | null = null; // the query before a lasso, and the one that it became
  private answered: { sql: string; columns: readonly string[]; id: string } | null = null; // of the rows that are all there

  constructor() {
    this.map = new MapPanel({
      changed: () => this.writeLink(),
      otherAxis: () => this.lighting?.abort(), // positions are those of the axis before
      selected: (selection) => this.onSelection(selection),
      extract: () => this.extract(null),
      save: () => this.save(),
    });
    this.result = new ResultPanel({
      ran: () => this.writeLink(),
      finished: (sql, columns, id) => { this.answered = { sql, columns, id }; void this.lightRows(sql, columns, id); },
      picked: (sql, table, row) => void this.lightRow(sql, table.schema.fields.map(({ name }) => name), (column) => table.getChildAt(column)?.get(row)),
    }, this.dotPlot, () => this.catalogue);
    this.list = new CataloguePanel({
      insert: (text) => this.result.editor.insert(text),
      query: (sql) => { this.result.setSql(sql); void this.result.run(); },
      colour: (schema, axis, vector) => void this.colourBy(schema, axis, vector),
      matrix: (data, matrix, action) => this.onMatrix(data, matrix, action),
    });
    this.build();
    window.addEventListener("popstate", () => void this.follow());
    window.addEventListener("keydown", (event) => this.key(event));
  }

  private build(): void {
    const header = h("header", { class: "page-header" },
      h("h1", {}, this.mark(), h("span", {}, "daf explore")), h("span", { class: "source" }),
      h("span", { class: "header-tools" },
        iconButton("link", "Copy a link to this state", () => void this.copyLink()), iconButton("help", "Keys", () => openHelp())));
    const centre = h("div", { class: "centre" }, this.result.query);
    const main = h("main", { class: "page" });
    centre.append(separator(main, () => this.result.query, {
      label: "Height of the query", variable: "--query-height", horizontal: false, reversed: false, least: 90, most: () => innerHeight * 0.7,
    }), this.result.result);
    main.append(this.list.element, separator(main, () => this.list.element, {
      label: "Width of the list", variable: "--list-width", horizontal: true, reversed: false, least: 160, most: () => innerWidth * 0.4,
    }), centre, separator(main, () => this.map.element, {
      label: "Width of the map", variable: "--map-width", horizontal: true, reversed: true, least: 260, most: () => innerWidth * 0.7,
    }), this.map.element);
    document.body.append(header, main);
  }

  private mark(): SVGElement {
    return svg("svg", { viewBox: "0 0 32 32", class: "mark-icon", "aria-hidden": "true" },
      svg("circle", { cx: 9, cy: 21, r: 5 }), svg("circle", { cx: 17, cy: 9, r: 5, class: "second" }), svg("circle", { cx: 25, cy: 22, r: 5, class: "third" }));
  }

  async start(): Promise<void> {
    takeToken();
    try {
      await this.loadCatalogue();
    } catch (error) {
      this.refuse(error);
      return;
    }
    await this.follow({ first: true });
  }

  private async loadCatalogue(): Promise<void> {
    const catalogue = await getCatalogue();
    if (this.catalogue && this.catalogue.version !== catalogue.version) return location.reload(); // what is shown is of other data
    this.catalogue = catalogue;
    this.result.rowLimit = Math.min(catalogue.limits.rows, 1_000_000);
    this.list.show(catalogue);
    this.map.setCatalogue(catalogue);
    this.dotPlot.show(catalogue);
    const names = catalogue.data_sets.map(({ path }) => shortPath(path)).join(", ");
    const source = document.querySelector(".source");
    if (source) source.textContent = catalogue.writable ? `${names}; what is saved goes to ${shortPath(catalogue.overlay ?? "")}` : names;
    document.title = `${names} · daf explore`;
  }

  private refuse(error: unknown): void {
    const denied = error instanceof ServerError && (error.status === 401 || error.status === 403);
    document.querySelector("main")?.replaceChildren(h("div", { class: "refused", role: "alert" },
      h("h2", {}, denied ? "This address has no valid token" : "The data cannot be shown"),
      h("p", {}, denied ? "Open the whole address that daf explore printed in its terminal, with ?token= at its end." : error instanceof Error ? error.message : String(error))));
  }

  /** Do what the address says: at the start, and when going back and forth. */
  private async follow({ first = false } = {}): Promise<void> {
    const catalogue = this.catalogue;
    if (!catalogue) return;
    const link = readLink();
    const sql = link.sql ?? (first ? this.firstQuery(catalogue) : "");
    const wanted = this.mapOf(catalogue, link);
    const runs = sql && (first || sql.trim() !== this.result.ranSql);
    this.result.setSql(sql);
    await Promise.all([runs ? this.result.run({ quiet: true }) : null, wanted && this.differs(wanted) ? this.map.show(wanted) : null]);
    if (first) this.writeLink({ replace: true });
    if (first && this.answered) await this.lightRows(this.answered.sql, this.answered.columns, this.answered.id); // the rows may be here before the map
  }

  private differs(wanted: MapState): boolean {
    return JSON.stringify(wanted) !== JSON.stringify(this.map.state);
  }

  private mapOf(catalogue: Catalogue, link: Partial<LinkState>): MapState | null {
    const usual = firstEmbedding(catalogue);
    const [schema, name, embedding] = [link.schema ?? usual?.schema, link.axis ?? usual?.axis, link.embedding ?? usual?.embedding];
    const axis = catalogue.data_sets.find((data) => data.schema === schema)?.axes.find((one) => one.name === name);
    if (!schema || !axis || !embedding) return null;
    return { schema, axis: axis.name, embedding, colour: link.colour !== undefined ? plainColour(link.colour, axis) : firstColour(axis) };
  }

  private firstQuery(catalogue: Catalogue): string {
    const place = firstEmbedding(catalogue);
    const data = catalogue.data_sets.find(({ schema }) => schema === place?.schema) ?? catalogue.data_sets[0];
    const axis = place?.axis ?? [...(data?.axes ?? [])].sort((one, other) => other.vectors.length - one.vectors.length)[0]?.name;
    return data && axis ? `SELECT *\nFROM ${tableName(catalogue, data.schema, axis)}\nLIMIT 1000` : "";
  }

  private writeLink({ replace = false } = {}): void {
    const { schema = "", axis = "", embedding = "", colour = null } = this.map.state ?? {};
    writeLink({ sql: this.result.sql.trim(), schema, axis, embedding, colour }, { replace });
  }

  private onSelection(selection: Selection | null): void {
    const catalogue = this.catalogue;
    this.lighting?.abort(); // what is selected is lit
    const narrowed = this.narrowed?.sql === this.result.sql ? this.narrowed : null;
    if (!selection && narrowed) {
      this.result.setSql(narrowed.before); // its table is gone
      void this.result.run();
    }
    if (!selection) this.narrowed = null;
    if (!catalogue || !selection) return;
    const data = catalogue.data_sets.find(({ schema }) => schema === selection.schema);
    const table = tableName(catalogue, selection.schema, selection.axis);
    const before = this.result.sql;
    const sql = withSelection(before, table, getSelectionTable(), data?.is_collection ?? false);
    if (sql !== before) this.narrowed = { before: narrowed?.before ?? before, sql };
    this.result.setSql(sql);
    this.result.tabs.open(this.result.tabs.current === "dotplot" ? "table" : this.result.tabs.current);
    void this.result.run();
  }

  /** Light the rows of a query in the map, if it is about the axis that is shown there. */
  private async lightRows(sql: string, columns: readonly string[], id: string): Promise<void> {
    const state = this.map.state;
    this.lighting?.abort();
    if (!state || usesSelection(sql, getSelectionTable()) || this.map.selection) return;
    if (!columns.includes("name") || !mentions(sql, state.axis) || !chooses(sql)) return this.map.light(null, "");
    await this.lightThose((signal) => getSentRows(state.schema, state.axis, id, signal), "of the query");
  }

  private async lightThose(rows: (signal: AbortSignal) => Promise<Uint32Array>, what: string): Promise<void> {
    this.lighting?.abort();
    const lighting = new AbortController();
    this.lighting = lighting;
    try {
      const positions = await rows(lighting.signal);
      if (lighting.signal.aborted) return;
      this.map.light(positions.length === this.map.count ? null : positions, `highlighted: ${plural(positions.length, "point")} ${what}`);
    } catch {
      if (!lighting.signal.aborted) this.map.light(null, "");
    }
  }

  /** Light what one row of the result stands for: an entry, or all of a group. */
  private async lightRow(sql: string, columns: readonly string[], value: (column: number) => unknown): Promise<void> {
    const state = this.map.state;
    const axis = this.catalogue?.data_sets.find(({ schema }) => schema === state?.schema)?.axes.find(({ name }) => name === state?.axis);
    if (!state || !axis || this.map.selection || !mentions(sql, axis.name)) return;
    const name = columns.indexOf("name");
    const groups = columns.flatMap((column, place) => {
      const vector = axis.vectors.find((one) => one.name === column);
      if (!vector || !["string", "boolean"].includes(vector.kind)) return [];
      const of = value(place); // NULL is a group, too
      return of === null ? [`${identifier(column)} IS NULL`] : [`${identifier(column)} = ${typeof of === "boolean" ? of : literal(String(of))}`];
    });
    const keys = ["dataset", "name"].flatMap((key) => {
      const of = value(columns.indexOf(key));
      return typeof of === "string" ? [`${key} = ${literal(of)}`] : [];
    });
    const condition = (name >= 0 && typeof value(name) === "string" ? keys : groups).join(" AND ");
    if (!condition) return this.map.light(null, ""); // not those of the row before
    await this.lightThose((signal) => getRows(state.schema, state.axis, condition, signal), `where ${condition}`);
  }

  private async colourBy(schema: string, axis: string, vector: string): Promise<void> {
    const state = this.map.state;
    if (state?.schema === schema && state.axis === axis) return this.map.chooseColour({ vector });
    const embedding = this.catalogue?.data_sets.find((data) => data.schema === schema)?.axes.find(({ name }) => name === axis)?.embeddings[0];
    if (embedding && (await this.map.show({ schema, axis, embedding, colour: { vector } }))) this.writeLink();
  }

  private onMatrix(data: DataSet, matrix: Matrix, action: "extract" | "profile" | "colour"): void {
    const mapped = this.map.state?.axis;
    const axis = mapped === matrix.columns ? matrix.columns : matrix.rows;
    const other = { name: matrix.name, columns: axis === matrix.rows ? matrix.columns : matrix.rows };
    if (action === "extract") return this.extract({ data, axis, matrix: other });
    if (action === "profile") {
      this.dotPlot.offer(data, axis, other);
      this.result.tabs.open("dotplot");
      this.dotPlot.element.querySelector("input")?.focus();
      return;
    }
    this.map.offerGene(other);
  }

  private extract(start: { data: DataSet; axis: string; matrix: { name: string; columns: string } } | null): void {
    const selection = this.map.selection;
    const data = start?.data ?? this.catalogue?.data_sets.find(({ schema }) => schema === selection?.schema);
    const axis = start?.axis ?? selection?.axis;
    if (!data || !axis) return;
    const fits = selection?.schema === data.schema && selection.axis === axis;
    openExtract({ data, axis, matrix: start?.matrix ?? null, selected: fits ? selection.positions.length : 0 });
  }

  private save(): void {
    const selection = this.map.selection;
    if (!selection || !this.catalogue) return;
    openSave(selection.schema, selection.axis, selection.positions.length, this.catalogue.overlay, () => this.loadCatalogue().catch((error: unknown) => toast(error instanceof Error ? error.message : String(error), { problem: true })));
  }

  private async copyLink(): Promise<void> {
    this.writeLink();
    const token = sessionStorage.getItem("daf-explore-token") ?? "";
    const address = new URL(location.href);
    address.searchParams.set("token", token);
    try {
      await navigator.clipboard.writeText(address.href);
      toast("copied; the link holds the query, the map and its colours, and works while daf explore runs");
    } catch {
      toast(address.href);
    }
  }

  private key(event: KeyboardEvent): void {
    if (!event.altKey || event.ctrlKey || event.metaKey) return;
    const places: Record<string, () => void> = {
      Digit1: () => this.list.element.querySelector<HTMLElement>("input")?.focus(),
      Digit2: () => this.result.editor.focus(),
      Digit3: () => this.result.tabs.list.querySelector<HTMLElement>("[aria-selected=true]")?.focus(),
      Digit4: () => this.map.element.querySelector<HTMLElement>("canvas")?.focus(),
    };
    const go = places[event.code];
    if (!go) return;
    event.preventDefault();
    go();
  }
}

void new Explorer().start();

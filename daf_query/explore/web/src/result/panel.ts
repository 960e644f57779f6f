// The query and its result: the editor above; below, the rows as a table and as a chart.
import { type RecordBatch, type Schema, Table } from "apache-arrow";
import { download, startExport } from "../api";
import { ChartPanel } from "../chart/panel";
import type { Catalogue, Problem } from "../contract";
import { announce, h, icon, toast } from "../dom";
import { makeEditor, type SqlEditor } from "../editor/editor";
import { forgetHistory, readHistory, remember } from "../editor/history";
import { errorWords, formatCount, formatSeconds, plural } from "../format";
import { Tabs } from "../layout";
import type { DotPlotPanel } from "../profile/dotplot";
import { type QueryDone, QueryRunner } from "./query";
import { VirtualTable } from "./table";

const REDRAW = 120; // milliseconds between pictures of a result that is still coming

export interface ResultListener {
  ran(sql: string): void;
  finished(sql: string, columns: readonly string[], id: string): void;
  picked(sql: string, table: Table, row: number): void;
}

export class ResultPanel {
  readonly query: HTMLElement;
  readonly result: HTMLElement;
  readonly editor: SqlEditor;
  readonly tabs: Tabs;
  rowLimit = 100_000;
  private readonly table: VirtualTable;
  private readonly chart = new ChartPanel();
  private readonly runner: QueryRunner;
  private readonly status = h("div", { class: "query-status", role: "status" });
  private readonly problem = h("div", { class: "message problem", role: "alert", hidden: true });
  private readonly runButton: HTMLButtonElement;
  private readonly downloads: HTMLElement;
  private batches: RecordBatch[] = [];
  private schema: Schema | null = null;
  private drawn = 0;
  ranSql = ""; // what was run last
  private shown: string | null = null; // the query whose rows are in the table

  constructor(private readonly listener: ResultListener, dotPlot: DotPlotPanel, catalogue: () => Catalogue | null) {
    this.editor = makeEditor(catalogue, () => void this.run());
    this.table = new VirtualTable((table, row) => listener.picked(this.shown ?? "", table, row));
    this.runner = new QueryRunner({
      started: () => this.started(), schema: (schema) => { this.schema = schema; }, batch: (batch) => this.batch(batch),
      finished: (state, id) => this.finished(state, id), failed: (problem) => this.failed(problem), cancelled: () => this.cancelled(),
    });
    this.runButton = h("button", { type: "button", class: "primary run", click: () => (this.runner.running ? this.runner.cancel() : void this.run()) });
    this.tabs = new Tabs([
      { id: "table", label: "Table", panel: this.table.element },
      { id: "chart", label: "Chart", panel: this.chart.element, opened: () => this.chart.redraw() },
      { id: "dotplot", label: "Dot plot", panel: dotPlot.element },
    ], "Result");
    this.downloads = h("div", { class: "result-tools" },
      h("button", { type: "button", class: "small", click: () => void this.copy() }, "Copy"),
      h("button", { type: "button", class: "small", click: () => void this.export("csv") }, "CSV"),
      h("button", { type: "button", class: "small", click: () => void this.export("parquet") }, "Parquet"));
    this.query = h("section", { class: "query", "aria-label": "Query" }, this.editor.element, this.problem,
      h("div", { class: "query-bar" }, this.runButton, this.historyMenu(), h("span", { class: "key-hint" }, "Ctrl Enter"), this.status));
    this.result = h("section", { class: "result", "aria-label": "Result" },
      h("div", { class: "result-head" }, this.tabs.list, this.downloads), this.tabs.panels);
    this.drawRunButton();
  }

  private historyMenu(): HTMLElement {
    const list = h("ul", { class: "history-list" });
    const menu = h("div", { class: "history", popover: "auto", id: "history", role: "dialog", "aria-label": "History" }, h("div", { class: "history-head" }, h("h2", {}, "History"),
      h("button", { type: "button", class: "link", click: () => { forgetHistory(); menu.hidePopover(); } }, "forget all")), list);
    const button = h("button", {
      type: "button", class: "small with-icon", "aria-haspopup": "dialog", click: () => {
        const entries = readHistory();
        list.replaceChildren(...entries.map((sql) => h("li", {}, h("button", {
          type: "button", class: "history-entry", click: () => { menu.hidePopover(); this.setSql(sql); this.editor.focus(); },
        }, sql))));
        if (!entries.length) list.replaceChildren(h("li", { class: "hint" }, "No query was run yet."));
        menu.showPopover();
        const place = button.getBoundingClientRect();
        menu.style.left = `${Math.max(8, Math.min(place.left, innerWidth - 480))}px`;
        menu.style.top = `${place.bottom + 6}px`;
        menu.querySelector("button")?.focus();
      },
    }, icon("clock"), "History");
    return h("span", {}, button, menu);
  }

  private drawRunButton(): void {
    this.runButton.replaceChildren(icon(this.runner.running ? "stop" : "play"), this.runner.running ? "Stop" : "Run");
    this.runButton.classList.toggle("running", this.runner.running);
  }

  get sql(): string {
    return this.editor.text();
  }

  setSql(sql: string): void {
    this.editor.replace(sql);
    this.clearProblem();
  }

  /** Run what the editor has. */
  async run({ quiet = false } = {}): Promise<void> {
    const sql = this.editor.text().trim();
    if (!sql) return;
    if (!quiet) this.listener.ran(sql);
    remember(sql);
    this.ranSql = sql;
    await this.runner.run(this.editor.text(), this.rowLimit);
  }

  private started(): void {
    this.batches = [];
    this.schema = null;
    this.drawn = 0;
    this.clearProblem();
    this.status.textContent = "running…";
    this.status.classList.remove("truncated");
    this.drawRunButton();
  }

  private clearProblem(): void {
    this.problem.hidden = true;
    this.problem.replaceChildren();
    this.editor.underline(null);
  }

  private batch(batch: RecordBatch): void {
    if (batch.numRows) this.batches.push(batch);
    const now = performance.now();
    if (now - this.drawn < REDRAW) return;
    this.show({ growing: this.drawn > 0 });
    this.drawn = now;
  }

  private show({ growing }: { growing: boolean }): Table | null {
    if (!this.schema) return null;
    const table = new Table(this.schema, this.batches);
    this.table.show(table, { growing });
    if (!growing) this.shown = this.ranSql;
    this.status.textContent = `${plural(table.numRows, "row")}…`;
    return table;
  }

  private finished(end: QueryDone, id: string): void {
    this.drawRunButton();
    const table = this.show({ growing: this.drawn > 0 });
    if (!table) return;
    this.chart.show(table);
    const limit = table.numRows >= this.rowLimit ? plural(this.rowLimit, "row") : "so many bytes";
    const more = end.truncated ? `, the first of more: ${limit} is the limit of this page` : "";
    this.status.textContent = `${plural(table.numRows, "row")}${more} in ${formatSeconds(end.seconds)}`;
    this.status.classList.toggle("truncated", end.truncated);
    this.shown = this.ranSql;
    this.listener.finished(this.ranSql, table.schema.fields.map(({ name }) => name), id);
  }

  private failed(problem: Problem): void {
    this.drawRunButton();
    this.status.textContent = this.shown === null || this.schema ? "" : "the rows are those of the query before";
    const place = problem.line === null ? "" : `line ${problem.line}${problem.column === null ? "" : `, column ${problem.column}`}: `;
    this.problem.replaceChildren(h("strong", {}, errorWords(problem.error.replace(/^Axis/, "Table"))), ` ${place}${problem.message}`,
      ...(problem.remedy ? [h("div", { class: "remedy" }, problem.remedy)] : []));
    this.problem.hidden = false;
    this.editor.underline(problem);
  }

  private cancelled(): void {
    this.drawRunButton();
    this.status.textContent = this.shown === null || this.schema ? "stopped" : "stopped; the rows are those of the query before";
  }

  private async copy(): Promise<void> {
    try {
      const { text, rows } = this.table.asTabbed();
      await navigator.clipboard.writeText(text);
      announce("copied");
      const all = this.table.table?.numRows ?? 0;
      toast(`copied ${rows < all ? `the first ${formatCount(rows)} of ` : ""}${plural(all, "row")}, with tabs between the columns`);
    } catch {
      toast("the browser does not allow copying", { problem: true });
    }
  }

  private async export(format: "csv" | "parquet"): Promise<void> {
    const shown = this.shown;
    if (shown === null) return toast("run a query first");
    try {
      download((await startExport(shown, format)).ticket);
      announce("the download starts");
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), { problem: true });
    }
  }
}

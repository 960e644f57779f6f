// A table of which only the rows in view exist as elements. Rows are sorted by permuting their numbers.
import type { Table, Vector } from "apache-arrow";
import { announce, h, toast } from "../dom";
import { asCell, asText, type Sort, sortKeys, sortOf, sortedRows, valuesOf } from "./values";

const ROW_HEIGHT = 26;
const MOST_PIXELS = 8_000_000; // browsers stop at about 16 million
const SPARE_ROWS = 8;
const SPARE_COLUMNS = 16;
const NUMBER_WIDTH = 52; // of the column with the numbers of the rows
const MOST_COPIED = 100_000;

interface Order {
  readonly column: number;
  readonly descending: boolean;
}

export class VirtualTable {
  readonly element: HTMLDivElement;
  private readonly head: HTMLDivElement;
  private readonly body: HTMLDivElement;
  private readonly space: HTMLDivElement;
  private data: Table | null = null;
  private sorts: Sort[] = [];
  private values: ((row: number) => unknown)[] = [];
  private widths: number[] = [];
  private starts: number[] = [0]; // where each column begins, and the width of all
  private shown = { first: 0, last: 0 }; // the columns that exist as elements
  private order: Order | null = null;
  private rows: Uint32Array | null = null;
  private cursor = { row: 0, column: 0 };
  private pending = 0;

  constructor(private readonly onPick: (table: Table, row: number) => void) {
    this.head = h("div", { role: "rowgroup", class: "table-head" });
    this.body = h("div", { role: "rowgroup", class: "table-body" });
    this.space = h("div", { class: "table-space", role: "presentation" }, this.body);
    this.element = h("div", {
      role: "grid", class: "table", tabindex: 0, "aria-label": "Rows of the result", "aria-readonly": "true",
      scroll: () => this.schedule(), keydown: (event: KeyboardEvent) => this.onKey(event),
    }, this.head, this.space);
    new ResizeObserver(() => this.schedule()).observe(this.element);
  }

  /** Show a result; while batches of one come, the order and the place are kept. */
  show(data: Table, { growing = false } = {}): void {
    const same = growing && this.data !== null;
    const hadRows = same && (this.data?.numRows ?? 0) > 0;
    this.data = data;
    this.sorts = data.schema.fields.map(sortOf);
    this.values = data.schema.fields.map((_, column) => valuesOf(data.getChildAt(column) as Vector));
    if (!same) {
      this.order = null;
      this.rows = null;
      this.cursor = { row: 0, column: 0 };
      this.element.scrollTop = 0;
      this.element.scrollLeft = 0;
    } else if (this.order) {
      this.sort(this.order);
    }
    if (!hadRows) this.measure();
    this.shown = this.columnsInView();
    this.drawHead();
    this.draw();
  }

  get table(): Table | null {
    return this.data;
  }

  /** Whether the columns' order is the server's. */
  get isSorted(): boolean {
    return this.order !== null;
  }

  /** The rows as text with tabs, as spreadsheets take it. */
  asTabbed(): { readonly text: string; readonly rows: number } {
    const data = this.data;
    if (!data) return { text: "", rows: 0 };
    const clean = (text: string): string => text.replaceAll(/[\t\r\n]/g, " ");
    const lines = [data.schema.fields.map(({ name }) => clean(name)).join("\t")];
    const rows = Math.min(data.numRows, MOST_COPIED);
    for (let row = 0; row < rows; row += 1) {
      const cells = this.sorts.map((sort, column) => clean(asText(this.value(row, column), sort)));
      lines.push(cells.join("\t"));
    }
    return { text: lines.join("\n"), rows };
  }

  private value(row: number, column: number): unknown {
    return this.values[column]?.(this.rows ? (this.rows[row] as number) : row);
  }

  private measure(): void {
    const data = this.data;
    if (!data) return;
    const pen = document.createElement("canvas").getContext("2d");
    if (pen) pen.font = getComputedStyle(this.element).font;
    const widthOf = (text: string): number => pen?.measureText(text).width ?? text.length * 8.3;
    this.widths = data.schema.fields.map((field, column) => {
      let widest = widthOf(field.name) * 1.15 + 22; // bold, with an arrow
      for (let row = 0; row < Math.min(50, data.numRows); row += 1) {
        widest = Math.max(widest, widthOf(asCell(this.value(row, column), this.sorts[column] as Sort)));
      }
      return Math.min(Math.max(Math.ceil(widest) + 26, 64), 340);
    });
    this.starts = [0];
    for (const width of this.widths) this.starts.push((this.starts.at(-1) as number) + width);
  }

  /** The columns in view, with some more on either side. */
  private columnsInView(): { first: number; last: number } {
    const [left, right] = [this.element.scrollLeft, this.element.scrollLeft + this.element.clientWidth];
    const first = this.starts.findIndex((start) => start > left) - 1;
    const beyond = this.starts.findIndex((start) => start > right);
    return {
      first: Math.max(first < 0 ? 0 : first - SPARE_COLUMNS, 0),
      last: Math.min(beyond < 0 ? this.widths.length : beyond + SPARE_COLUMNS, this.widths.length),
    };
  }

  /** Lay out a row of which only some columns exist. */
  private layOut(row: HTMLElement): HTMLElement {
    const { first, last } = this.shown;
    const tracks = [NUMBER_WIDTH + (this.starts[first] as number), ...this.widths.slice(first, last)];
    row.style.gridTemplateColumns = tracks.map((width) => `${width}px`).join(" ");
    row.style.width = `${NUMBER_WIDTH + (this.starts.at(-1) as number)}px`;
    return row;
  }

  private drawHead(): void {
    const data = this.data;
    if (!data) return;
    const { first, last } = this.shown;
    const titles = data.schema.fields.slice(first, last).map((field, place) => {
      const column = first + place;
      const mark = this.order?.column === column ? (this.order.descending ? " ↓" : " ↑") : "";
      const sorted = mark === "" ? "none" : mark === " ↓" ? "descending" : "ascending";
      return h("div", { role: "columnheader", "aria-colindex": column + 2, "aria-sort": sorted, class: `cell ${this.sorts[column]}` },
        h("button", { type: "button", "data-column": column, title: `${field.name}: ${field.type}. Sort the rows that are here.`, click: () => this.toggle(column) },
          h("span", { class: "column-name" }, field.name), h("span", { class: "sort-mark", "aria-hidden": "true" }, mark)));
    });
    const row = h("div", { role: "row", "aria-rowindex": 1, class: "row" },
      h("div", { role: "columnheader", "aria-colindex": 1, class: "cell number-column" }, h("span", { class: "visually-hidden" }, "row")), ...titles);
    const focused = this.head.contains(document.activeElement) ? document.activeElement?.getAttribute("data-column") : null;
    this.head.replaceChildren(this.layOut(row));
    if (focused) this.focusHead(Number(focused));
    this.element.setAttribute("aria-colcount", String(data.schema.fields.length + 1));
  }

  private toggle(column: number): void {
    const current = this.order;
    if (current?.column === column && current.descending) {
      this.order = null;
      this.rows = null;
    } else {
      this.sort({ column, descending: current?.column === column });
    }
    this.drawHead();
    this.draw();
    this.focusHead(column);
    announce(this.order ? `sorted ${this.order.descending ? "descending" : "ascending"}` : "in the order of the query");
  }

  private focusHead(column: number): void {
    this.head.querySelector<HTMLElement>(`[data-column="${column}"]`)?.focus({ preventScroll: true });
  }

  private sort(order: Order): void {
    const column = this.data?.getChildAt(order.column);
    if (!column) return;
    this.order = order;
    this.rows = sortedRows(sortKeys(column, this.sorts[order.column] as Sort), order.descending);
  }

  private schedule(): void {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  private get viewHeight(): number {
    return Math.max(this.element.clientHeight - ROW_HEIGHT, ROW_HEIGHT);
  }

  /** Pixels of scrolling for each row: less than its height where there are too many rows. */
  private get pitch(): number {
    const count = this.data?.numRows ?? 0;
    return count * ROW_HEIGHT <= MOST_PIXELS ? ROW_HEIGHT : (MOST_PIXELS - this.viewHeight) / Math.max(count - this.viewHeight / ROW_HEIGHT, 1);
  }

  private draw(): void {
    const data = this.data;
    if (!data) return;
    const [count, pitch] = [data.numRows, this.pitch];
    const total = Math.min(count * ROW_HEIGHT, MOST_PIXELS);
    this.space.style.height = `${total}px`;
    this.space.style.width = `${NUMBER_WIDTH + (this.starts.at(-1) as number)}px`;
    const columns = this.columnsInView();
    if (columns.first !== this.shown.first || columns.last !== this.shown.last) {
      this.shown = columns;
      this.drawHead();
    }
    this.element.setAttribute("aria-rowcount", String(count + 1));
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / pitch) - SPARE_ROWS);
    const last = Math.min(count, Math.ceil(top / pitch + this.viewHeight / ROW_HEIGHT) + SPARE_ROWS);
    const shift = top - (top / pitch - first) * ROW_HEIGHT;
    this.body.style.transform = `translateY(${Math.max(shift, 0)}px)`;
    const rows: HTMLElement[] = [];
    for (let row = first; row < last; row += 1) rows.push(this.drawRow(row));
    this.body.replaceChildren(...rows);
    const active = this.body.querySelector("[data-active]");
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private drawRow(row: number): HTMLElement {
    const { first, last } = this.shown;
    const cells = this.sorts.slice(first, last).map((sort, place) => {
      const column = first + place;
      const value = this.value(row, column);
      const active = row === this.cursor.row && column === this.cursor.column;
      const missing = value === null || value === undefined;
      const text = asCell(value, sort);
      return h("div", {
        role: "gridcell", "aria-colindex": column + 2, class: `cell ${sort}${missing ? " missing" : ""}`,
        ...(active ? { "data-active": true, id: "active-cell" } : {}),
        ...(text.length > 40 ? { title: text } : {}),
      }, text);
    });
    const number = h("div", { role: "rowheader", "aria-colindex": 1, class: "cell number-column" }, row + 1);
    const element = h("div", {
      role: "row", "aria-rowindex": row + 2, class: row % 2 ? "row odd" : "row",
      click: (event: MouseEvent) => this.pick(row, event),
    }, number, ...cells);
    return this.layOut(element);
  }

  private pick(row: number, event: MouseEvent): void {
    const cell = (event.target as Element).closest("[aria-colindex]");
    const column = Math.max(Number(cell?.getAttribute("aria-colindex") ?? 2) - 2, 0);
    this.cursor = { row, column };
    this.draw();
    if (this.data) this.onPick(this.data, this.rows ? (this.rows[row] as number) : row);
  }

  private onKey(event: KeyboardEvent): void {
    if (event.target !== this.element || !this.data) return;
    const page = Math.max(1, Math.floor(this.viewHeight / ROW_HEIGHT) - 1);
    const steps: Record<string, [number, number]> = {
      ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [page, 0], PageUp: [-page, 0],
      Home: [event.ctrlKey ? -Infinity : 0, -Infinity], End: [event.ctrlKey ? Infinity : 0, Infinity],
    };
    const step = steps[event.key];
    if (step) {
      this.moveTo(this.cursor.row + step[0], this.cursor.column + step[1]);
      event.preventDefault();
    } else if (event.key === "Enter") {
      this.onPick(this.data, this.rows ? (this.rows[this.cursor.row] as number) : this.cursor.row);
    } else if (event.key === "c" && (event.ctrlKey || event.metaKey) && !getSelection()?.toString()) {
      const { row, column } = this.cursor;
      navigator.clipboard.writeText(asText(this.value(row, column), this.sorts[column] as Sort))
        .then(() => announce("copied the cell"), () => toast("the browser does not allow copying", { problem: true }));
    }
  }

  private moveTo(row: number, column: number): void {
    const most = (this.data?.numRows ?? 1) - 1;
    this.cursor = {
      row: Math.min(Math.max(row, 0), Math.max(most, 0)),
      column: Math.min(Math.max(column, 0), this.sorts.length - 1),
    };
    const [pitch, top] = [this.pitch, this.element.scrollTop];
    const visible = this.viewHeight / ROW_HEIGHT - 1;
    if (this.cursor.row < top / pitch) this.element.scrollTop = this.cursor.row * pitch;
    else if (this.cursor.row > top / pitch + visible) this.element.scrollTop = (this.cursor.row - visible) * pitch;
    this.reveal(this.cursor.column);
    this.draw();
  }

  private reveal(column: number): void {
    const left = NUMBER_WIDTH + (this.starts[column] as number);
    const right = left + (this.widths[column] ?? 0);
    if (left - NUMBER_WIDTH < this.element.scrollLeft) this.element.scrollLeft = left - NUMBER_WIDTH;
    else if (right > this.element.scrollLeft + this.element.clientWidth) this.element.scrollLeft = right - this.element.clientWidth;
  }
}

// Running a query: batches as they come, one query at a time.
import { type RecordBatch, RecordBatchReader, type Schema } from "apache-arrow";
import { isAborted, ServerError, startQuery } from "../api";
import type { Problem, QueryEnd } from "../contract";

const LAST_BYTES = 1 << 20; // how an answer ended is within these

export type QueryDone = Exclude<QueryEnd, { readonly error: Problem }>;

export interface QueryListener {
  started(): void;
  schema(schema: Schema): void;
  batch(batch: RecordBatch): void;
  finished(end: QueryDone, id: string): void;
  failed(problem: Problem): void;
  cancelled(): void;
}

function problemOf(error: unknown): Problem {
  if (error instanceof ServerError) return error.problem;
  const message = error instanceof Error ? error.message : String(error);
  return { error: "Page", message, line: null, column: null, length: null, remedy: null };
}

/** The body of an answer, part by part, and what is behind the mark of the end of its Arrow stream. */
class Body {
  private last: Uint8Array[] = [];

  constructor(private readonly reader: ReadableStreamDefaultReader<Uint8Array>) {}

  async *parts(): AsyncGenerator<Uint8Array> {
    for (let part = await this.reader.read(); !part.done; part = await this.reader.read()) {
      this.last.push(part.value);
      while (this.last.slice(1).reduce((size, each) => size + each.length, 0) > LAST_BYTES) this.last.shift();
      yield part.value;
    }
  }

  /** Read what is left, and say how the query ended. A connection that is closed before its end counts as given up. */
  async end(): Promise<QueryEnd> {
    for await (const _ of this.parts());
    const bytes = new Uint8Array(await new Blob(this.last as BlobPart[]).arrayBuffer());
    const mark = bytes.lastIndexOf(0xff); // JSON has no such byte; four zeros follow the last of the mark
    if (mark < 0 || mark + 5 >= bytes.length) throw new Error("the answer broke off");
    return JSON.parse(new TextDecoder().decode(bytes.subarray(mark + 5))) as QueryEnd;
  }
}

/** Runs queries; a new one cancels the one before. */
export class QueryRunner {
  private current: { id: string; abort: AbortController } | null = null;

  constructor(private readonly listener: QueryListener) {}

  get running(): boolean {
    return this.current !== null;
  }

  cancel(): void {
    const current = this.current;
    if (!current) return;
    this.current = null;
    current.abort.abort();
    this.listener.cancelled();
  }

  /** Run a query to its end. Returns whether it was answered in full. */
  async run(sql: string, rows: number): Promise<boolean> {
    this.cancel();
    const query = { id: crypto.randomUUID(), abort: new AbortController() };
    this.current = query;
    this.listener.started();
    try {
      const end = await this.read(query, sql, rows);
      if (this.current !== query || !end) return false;
      this.current = null;
      if ("error" in end) this.listener.failed(end.error);
      else this.listener.finished(end, query.id);
      return !("error" in end);
    } catch (error) {
      if (this.current !== query) return false;
      this.current = null;
      if (isAborted(error)) this.listener.cancelled();
      else this.listener.failed(problemOf(error));
      return false;
    }
  }

  private async read(query: { id: string; abort: AbortController }, sql: string, rows: number): Promise<QueryEnd | null> {
    const response = await startQuery(query.id, sql, rows, query.abort.signal);
    if (!response.body) return null;
    const body = new Body(response.body.getReader());
    const reader = await RecordBatchReader.from(body.parts());
    await reader.open();
    if (this.current !== query) return null;
    this.listener.schema(reader.schema);
    try {
      for await (const batch of reader) {
        if (this.current !== query) return null;
        this.listener.batch(batch);
      }
    } catch (error) { // where an error came before the first batch, what is behind the mark was read as one
      const end = await body.end();
      if (!("error" in end)) throw error;
      return end;
    }
    return body.end();
  }
}

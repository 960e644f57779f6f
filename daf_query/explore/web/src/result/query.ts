// Running a query: batches as they come, one query at a time.
import { type RecordBatch, RecordBatchReader, type Schema } from "apache-arrow";
import { cancelQuery, getQueryState, isAborted, ServerError, startQuery } from "../api";
import type { Problem, QueryState } from "../contract";

export interface QueryListener {
  started(): void;
  schema(schema: Schema): void;
  batch(batch: RecordBatch): void;
  finished(state: QueryState, id: string): void;
  failed(problem: Problem): void;
  cancelled(): void;
}

function problemOf(error: unknown): Problem {
  if (error instanceof ServerError) return error.problem;
  const message = error instanceof Error ? error.message : String(error);
  return { error: "Page", message, line: null, column: null, length: null, remedy: null };
}

async function* parts(body: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (let part = await body.read(); !part.done; part = await body.read()) yield part.value;
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
    cancelQuery(current.id).catch(() => undefined);
    this.listener.cancelled();
  }

  /** Run a query to its end. Returns whether it was answered in full. */
  async run(sql: string, rows: number): Promise<boolean> {
    this.cancel();
    const query = { id: crypto.randomUUID(), abort: new AbortController() };
    this.current = query;
    this.listener.started();
    try {
      await this.read(query, sql, rows);
      if (this.current !== query) return false;
      const state = await getQueryState(query.id);
      if (this.current !== query) return false;
      this.current = null;
      if (state.error) this.listener.failed(state.error);
      else this.listener.finished(state, query.id);
      return !state.error;
    } catch (error) {
      if (this.current !== query) return false;
      this.current = null;
      if (isAborted(error)) this.listener.cancelled();
      else this.listener.failed(await this.reason(query.id, error));
      return false;
    }
  }

  private async read(query: { id: string; abort: AbortController }, sql: string, rows: number): Promise<void> {
    const response = await startQuery(query.id, sql, rows, query.abort.signal);
    if (!response.body) return;
    const body = response.body.getReader();
    const reader = await RecordBatchReader.from(parts(body));
    await reader.open();
    if (this.current !== query) return;
    this.listener.schema(reader.schema);
    for await (const batch of reader) {
      if (this.current !== query) return;
      this.listener.batch(batch);
    }
    while (!(await body.read()).done); // a connection that is closed before its end counts as given up
  }

  /** A stream that broke off says nothing itself; the server knows why. */
  private async reason(id: string, error: unknown): Promise<Problem> {
    if (error instanceof ServerError) return error.problem;
    try {
      return (await getQueryState(id)).error ?? problemOf(error);
    } catch {
      return problemOf(error);
    }
  }
}

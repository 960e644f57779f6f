// Requests to the server, each with the token. The only module that calls fetch.
import type {
  Catalogue, ColourBy, Estimate, ExtractRequest, Problem, Profile, Summary,
} from "./contract";
import { colourSql, usesSelection } from "./sql";

const TOKEN_KEY = "daf-explore-token";

let version: number | null = null;
let selectionTable = "selection";
let kept: { readonly schema: string; readonly axis: string; readonly positions: Uint32Array; id: string } | null = null;
let selections = 0; // how often something was selected here, or nothing

/** An answer that is no result: what the server said, with the place in the query where it knows it. */
export class ServerError extends Error {
  constructor(readonly status: number, readonly problem: Problem) {
    super(problem.message);
  }
}

/** Take the token from the address, keep it for this tab, and remove it from the address shown. */
export function takeToken(): void {
  const address = new URL(location.href);
  const token = address.searchParams.get("token");
  if (token === null) return;
  sessionStorage.setItem(TOKEN_KEY, token);
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

async function problemOf(response: Response): Promise<Problem> {
  const unknown = { line: null, column: null, length: null, remedy: null };
  try {
    return { ...unknown, ...((await response.json()) as Problem) };
  } catch {
    return { ...unknown, error: "HTTP", message: `${response.status} ${response.statusText}` };
  }
}

async function request(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("Authorization", `Bearer ${sessionStorage.getItem(TOKEN_KEY) ?? ""}`);
  if (version !== null) headers.set("X-Daf-Version", String(version));
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ServerError(0, {
      error: "Connection", message: "the server does not answer",
      line: null, column: null, length: null, remedy: "is daf explore still running in its terminal?",
    });
  }
  if (!response.ok) throw new ServerError(response.status, await problemOf(response));
  return response;
}

function post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}

async function json<T>(answer: Promise<Response>): Promise<T> {
  return (await (await answer).json()) as T;
}

/** Whether an error only says that a newer request took the place of this one. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** What there is; all that is asked for afterwards is of these data, and refused if others take their place. */
export async function getCatalogue(): Promise<Catalogue> {
  const catalogue = await json<Catalogue>(request("/api/catalogue"));
  version = catalogue.version;
  selectionTable = catalogue.selection;
  return catalogue;
}

export function getSummary(schema: string, axis: string, vector: string): Promise<Summary> {
  return json(request(`/api/summary?${new URLSearchParams({ schema, axis, vector })}`));
}

export function getEntries(
  schema: string, axis: string, prefix: string, limit = 50,
): Promise<{ entries: string[]; total: number }> {
  const query = new URLSearchParams({ schema, axis, prefix, limit: String(limit) });
  return json(request(`/api/entries?${query}`));
}

export async function startQuery(id: string, sql: string, rows: number, signal: AbortSignal): Promise<Response> {
  await keepSelection(usesSelection(sql, selectionTable));
  return post("/api/query", { id, sql, rows }, signal);
}

/** Coordinates of all entries of an axis: x, y, x, y, ...; NaN where one is missing. */
export async function getPoints(
  schema: string, axis: string, embedding: string, signal: AbortSignal,
): Promise<Float32Array> {
  const answer = await post("/api/points", { schema, axis, embedding }, signal);
  return new Float32Array(await answer.arrayBuffer());
}

export async function getColour(
  schema: string, axis: string, by: ColourBy, signal: AbortSignal,
): Promise<ArrayBuffer> {
  return (await post("/api/colour", { schema, axis, sql: colourSql(by) }, signal)).arrayBuffer();
}

/** Positions along the axis of the rows that a predicate or a SELECT yields, ascending. */
export async function getRows(
  schema: string, axis: string, sql: string, signal?: AbortSignal,
): Promise<Uint32Array> {
  return new Uint32Array(await (await post("/api/rows", { schema, axis, sql }, signal)).arrayBuffer());
}

/** Positions along the axis of the rows that a query has sent; computed again, it might have others. */
export async function getSentRows(schema: string, axis: string, query: string, signal?: AbortSignal): Promise<Uint32Array> {
  return new Uint32Array(await (await post("/api/rows", { schema, axis, query }, signal)).arrayBuffer());
}

/** The table that the selection is in SQL. */
export const getSelectionTable = (): string => selectionTable;

export async function setSelection(
  schema: string, axis: string, positions: Uint32Array,
): Promise<{ id: string; count: number }> {
  const query = new URLSearchParams({ schema, axis });
  selections += 1;
  const mine = selections;
  const selected = await json<{ id: string; count: number; table: string }>(request(`/api/selection?${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream" },
    body: positions as Uint32Array<ArrayBuffer>,
  }));
  if (mine === selections) kept = { schema, axis, positions, id: selected.id }; // answers may overtake each other
  selectionTable = selected.table;
  return selected;
}

/** Select again what is selected here, before it is used: the server has one selection, and other tabs change it. */
async function keepSelection(isUsed: boolean): Promise<void> {
  const here = kept;
  if (!isUsed || !here) return;
  const { id } = await json<{ id: string | null }>(request("/api/selection"));
  if (id !== here.id) await setSelection(here.schema, here.axis, here.positions);
}

export async function deleteSelection(): Promise<void> {
  kept = null;
  selections += 1;
  await request("/api/selection", { method: "DELETE" });
}

export async function estimateExtract(body: ExtractRequest): Promise<Estimate> {
  await keepSelection(body.selection);
  return json(post("/api/extract/estimate", body));
}

export async function startExtract(body: ExtractRequest): Promise<{ ticket: string }> {
  await keepSelection(body.selection);
  return json(post("/api/extract", body));
}

/** Ask for all rows of a query as a file. */
export async function startExport(sql: string, format: "parquet" | "csv"): Promise<{ ticket: string }> {
  await keepSelection(usesSelection(sql, selectionTable));
  return json(post("/api/export", { sql, format }));
}

export function getProfile(body: {
  schema: string; rows_axis: string; columns_axis: string; matrix: string;
  by: string; columns: string[]; rows: string | null;
}, signal: AbortSignal): Promise<Profile> {
  return json(post("/api/profile", body, signal));
}

export type SavedValues = { selection: true; true: string; false: string } | { sql: string };

export async function saveVector(
  schema: string, axis: string, name: string, values: SavedValues, overwrite: boolean,
): Promise<{ name: string }> {
  await keepSelection("selection" in values);
  return json(post("/api/save", { schema, axis, name, values, overwrite }));
}

/** Let the browser fetch what a ticket stands for, into its downloads. */
export function download(ticket: string): void {
  const link = document.createElement("a");
  link.href = `/download/${encodeURIComponent(ticket)}`;
  link.download = "";
  document.body.append(link);
  link.click();
  link.remove();
}

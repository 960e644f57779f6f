// What the editor offers: tables, columns of the tables that the query names, and genes within X['...'].
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { getEntries, getSummary } from "../api";
import type { Catalogue, DataSet } from "../contract";
import { formatCount } from "../format";
import { identifier, matricesOf, matrixReference, mentions, tableName } from "../sql";

const GENE = /((?:"(?:[^"]|"")+")|[A-Za-z_]\w*)\[\s*'((?:[^']|'')*)$/;

/** A column that is compared with a string which is not closed yet: `phase = 'G`, `phase IN ('S', 'G`. */
const VALUE = /("(?:[^"]|"")+"|[A-Za-z_]\w*)\s*(?:=|<>|!=|(?:not\s+)?i?like|(?:not\s+)?in\s*\((?:\s*'(?:[^']|'')*'\s*,)*)\s*'((?:[^']|'')*)$/i;

interface Place {
  readonly data: DataSet;
  readonly axis: string;
}

/** The axes that a query names; before it names one, all. */
function namedAxes(catalogue: Catalogue, sql: string): Place[] {
  const places = catalogue.data_sets.flatMap((data) => data.axes.map((axis) => ({ data, axis: axis.name })));
  const named = places.filter(({ axis }) => mentions(sql, axis));
  return named.length || /\bfrom\s+\S/i.test(sql) ? named : places;
}

const unquoted = (name: string): string => name.replace(/^"|"$/g, "").replaceAll('""', '"');

/** Insert text in place of what was typed, and of the end that the editor has put behind it. */
function insertion(text: string, end: string): NonNullable<Completion["apply"]> {
  return (view, _, from, to) => {
    const behind = view.state.sliceDoc(to, to + end.length);
    const closed = [...end].findIndex((letter, place) => behind[place] !== letter);
    const stop = to + (closed < 0 ? end.length : closed);
    view.dispatch({ changes: { from, to: stop, insert: text + end }, selection: { anchor: from + text.length + end.length }, userEvent: "input.complete" });
  };
}

function columnsOf({ data, axis }: Place): Completion[] {
  const vectors = data.axes.find(({ name }) => name === axis)?.vectors ?? [];
  const plain = vectors.map(({ name, type }) => ({
    label: name, apply: identifier(name), type: "property", detail: `${type} of ${axis}`, boost: 3,
  }));
  const matrices = matricesOf(data, axis).map(({ name, columns }) => ({
    label: matrixReference(data, axis, name, columns), apply: `${matrixReference(data, axis, name, columns)}['`,
    type: "function", detail: `of each ${columns}`, boost: 1,
  }));
  const always = ["name", "index"].map((label) => ({
    label, apply: identifier(label), type: "property", detail: `of ${axis}`, boost: 2,
  }));
  return [...plain, ...always, ...matrices];
}

function tables(catalogue: Catalogue): Completion[] {
  return catalogue.data_sets.flatMap((data) => data.axes.map((axis) => ({
    label: tableName(catalogue, data.schema, axis.name), type: "class", boost: 2,
    detail: `${formatCount(axis.length ?? 0)} rows`,
  })));
}

async function genes(catalogue: Catalogue, context: CompletionContext, sql: string): Promise<CompletionResult | null> {
  const before = context.matchBefore(GENE);
  const parts = before && GENE.exec(before.text);
  if (!before || !parts) return null;
  const reference = unquoted(parts[1] as string);
  const typed = parts[2] as string;
  for (const { data, axis } of namedAxes(catalogue, sql)) {
    const matrix = matricesOf(data, axis).find(({ name, columns }) =>
      reference === name || reference === `${columns}.${name}`);
    if (!matrix) continue;
    const { entries, total } = await getEntries(data.schema, matrix.columns, typed.replaceAll("''", "'"), 40);
    return {
      from: context.pos - typed.length,
      filter: false,
      options: entries.map((name, place) => ({
        label: name, apply: insertion(name.replaceAll("'", "''"), "']"), type: "constant", boost: -place,
        ...(place === 0 && total > entries.length ? { detail: `${formatCount(total)} match` } : {}),
      })),
    };
  }
  return null;
}

/** The most frequent values of the column that a string is compared with; names of entries by their beginning. */
async function valuesOf(catalogue: Catalogue, context: CompletionContext, sql: string): Promise<CompletionResult | null> {
  const before = context.matchBefore(VALUE);
  const parts = before && VALUE.exec(before.text);
  if (!before || !parts) return null;
  const [column, typed] = [unquoted(parts[1] as string), (parts[2] as string)];
  const from = context.pos - typed.length;
  const option = (value: string, place: number, detail = ""): Completion =>
    ({ label: value, apply: insertion(value.replaceAll("'", "''"), "'"), type: "constant", boost: -place, ...(detail ? { detail } : {}) });
  for (const { data, axis } of namedAxes(catalogue, sql)) {
    if (column === "name") {
      const { entries } = await getEntries(data.schema, axis, typed.replaceAll("''", "'"), 40);
      if (entries.length) return { from, filter: false, options: entries.map((name, place) => option(name, place)) };
    } else if (data.axes.some(({ name, vectors }) => name === axis && vectors.some((vector) => vector.name === column && vector.kind === "string"))) {
      const { top } = await getSummary(data.schema, axis, column);
      const values = (top ?? []).flatMap(([value, count]) => (typeof value === "string" ? [[value, count] as const] : []));
      return { from, options: values.map(([value, count], place) => option(value, place, formatCount(count))), validFor: /^[^']*$/ };
    }
  }
  return null;
}

/** The completions of a place in a query over these data sets. */
export function completionsOf(catalogue: () => Catalogue | null) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const known = catalogue();
    const sql = context.state.doc.toString();
    if (!known) return null;
    for (const within of [genes, valuesOf]) {
      const found = await within(known, context, sql).catch(() => null); // what is wrong, the query says when it runs
      if (found || context.aborted) return found;
    }
    const word = context.matchBefore(/[\w"]*/);
    if (!word || (word.from === word.to && !context.explicit)) return null;
    const columns = namedAxes(known, sql).flatMap(columnsOf);
    const extra = known.data_sets.length ? [{ label: known.selection, type: "class", detail: "what is selected" }] : [];
    return { from: word.from, options: [...columns, ...tables(known), ...extra], validFor: /^[\w"]*$/ };
  };
}

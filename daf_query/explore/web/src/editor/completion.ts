// What the editor offers: tables, columns of the tables that the query names, and genes within X['...'].
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { getEntries } from "../api";
import type { Catalogue, DataSet } from "../contract";
import { formatCount } from "../format";
import { identifier, matricesOf, matrixReference, mentions, tableName } from "../sql";

const GENE = /((?:"(?:[^"]|"")+")|[A-Za-z_]\w*)\[\s*'((?:[^']|'')*)$/;

interface Place {
  readonly data: DataSet;
  readonly axis: string;
}

function namedAxes(catalogue: Catalogue, sql: string): Place[] {
  const places = catalogue.data_sets.flatMap((data) => data.axes.map((axis) => ({ data, axis: axis.name })));
  return places.filter(({ axis }) => mentions(sql, axis));
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
  const reference = (parts[1] as string).replace(/^"|"$/g, "").replaceAll('""', '"');
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
        label: name, apply: `${name.replaceAll("'", "''")}']`, type: "constant", boost: -place,
        ...(place === 0 && total > entries.length ? { detail: `${formatCount(total)} match` } : {}),
      })),
    };
  }
  return null;
}

/** The completions of a place in a query over these data sets. */
export function completionsOf(catalogue: () => Catalogue | null) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const known = catalogue();
    const sql = context.state.doc.toString();
    if (!known) return null;
    const ofMatrix = await genes(known, context, sql).catch(() => null); // what is wrong, the query says when it runs
    if (ofMatrix || context.aborted) return ofMatrix;
    const word = context.matchBefore(/[\w"]*/);
    if (!word || (word.from === word.to && !context.explicit)) return null;
    const columns = namedAxes(known, sql).flatMap(columnsOf);
    const extra = known.data_sets.length ? [{ label: known.selection, type: "class", detail: "what is selected" }] : [];
    return { from: word.from, options: [...columns, ...tables(known), ...extra], validFor: /^[\w"]*$/ };
  };
}

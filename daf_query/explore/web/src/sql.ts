// SQL as text: names and strings in quotes, and the condition of a selection put into a query.
import type { Catalogue, ColourBy, DataSet } from "./contract";

const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/;
const WORDS = new Set((
  "all and as asc between by case cast cross current default desc distinct else end except exists false filter "
  + "from full group having in index inner intersect interval into is join left like limit natural not null offset "
  + "on or order outer over partition right select set similar table then to true union unnest using values when "
  + "where window with"
).split(" "));

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

export function identifier(name: string): string {
  return PLAIN.test(name) && !WORDS.has(name.toLowerCase()) ? name : quoted(name);
}

export const literal = (value: string): string => `'${value.replaceAll("'", "''")}'`;

/** What points are coloured by, as an expression over the table of their axis. */
export function colourSql(by: ColourBy): string {
  if ("sql" in by) return by.sql;
  if ("vector" in by) return quoted(by.vector);
  return `${quoted(`${by.gene.columns}.${by.gene.matrix}`)}[${literal(by.gene.name)}]`;
}

/** The name of an axis' table: with its schema, if there are several data sets. */
export function tableName(catalogue: Catalogue, schema: string, axis: string): string {
  return catalogue.data_sets.length > 1 ? `${identifier(schema)}.${identifier(axis)}` : identifier(axis);
}

/** Matrices over an axis, with the axis on the other side of each. */
export function matricesOf(data: DataSet, axis: string): { name: string; columns: string }[] {
  const sides = data.matrices.flatMap((matrix) => [
    ...(matrix.rows === axis ? [{ name: matrix.name, columns: matrix.columns }] : []),
    ...(matrix.columns === axis && matrix.rows !== axis ? [{ name: matrix.name, columns: matrix.rows }] : []),
  ]);
  const seen = new Set<string>();
  return sides.filter(({ name, columns }) => {
    const key = JSON.stringify([name, columns]);
    return seen.has(key) ? false : Boolean(seen.add(key));
  });
}

/** How a matrix is called in front of [...]: with the other axis, where the name alone is not enough. */
export function matrixReference(data: DataSet, axis: string, matrix: string, columns: string): string {
  const others = matricesOf(data, axis).filter(({ name }) => name === matrix);
  const vectors = data.axes.find(({ name }) => name === axis)?.vectors ?? [];
  const plain = others.length === 1 && !vectors.some(({ name }) => name === matrix);
  return plain ? identifier(matrix) : quoted(`${columns}.${matrix}`);
}

/** The condition of a selection; entries of a collection are known by their name and `dataset`. */
function conditionOf(table: string, selection: string, isCollection: boolean): string {
  return `name IN (SELECT name FROM ${selection}${isCollection ? ` WHERE ${selection}.dataset = ${table}.dataset` : ""})`;
}

/** Whether SQL has comments, or words of clauses within strings, which patterns do not tell from its own. */
const isObscure = (sql: string): boolean => /--|\/\*|'[^']*\b(?:where|group|having|order|limit|offset)\b[^']*'/i.test(sql);

const SIMPLE = /^(\s*SELECT\b[\s\S]*?\bFROM\s+)((?:"(?:[^"]|"")+"|[\w.])+)(\s+WHERE\s+([\s\S]*?))?(\s+(?:GROUP\s+BY|HAVING|ORDER\s+BY|LIMIT|OFFSET)\b[\s\S]*)?[\s;]*$/i;
const NESTED = /\b(?:JOIN|UNION|EXCEPT|INTERSECT|WITH)\b|\(\s*SELECT\b/i;

/** The query with the rows of a lasso only: put into a simple query of that table, or a new one. */
export function withSelection(sql: string, table: string, selection: string, isCollection: boolean): string {
  const selected = conditionOf(table, selection, isCollection);
  if (sql.includes(selected) && sql.includes(table)) return sql;
  const parts = isObscure(sql) ? null : SIMPLE.exec(sql);
  if (!parts || NESTED.test(sql) || parts[2] !== table) return `SELECT *\nFROM ${table}\nWHERE ${selected}`;
  const condition = parts[4] === undefined ? selected : `(${parts[4].trim()}) AND ${selected}`;
  return `${parts[1]}${parts[2]}\nWHERE ${condition}${parts[5] ?? ""}`;
}

/** Whether a query may read the table of the selection. */
export const usesSelection = (sql: string, selection: string): boolean => new RegExp(`\\b${selection}\\b`, "i").test(sql);

/** Whether a query names a table, as far as its text shows. */
export function mentions(sql: string, axis: string): boolean {
  const name = axis.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`(^|[^\\w'])${name}($|[^\\w'])`).test(sql);
}

/** Whether a query has a condition, as far as its text shows: LIMIT alone yields rows that nobody chose. */
export const chooses = (sql: string): boolean => /\b(where|having|join)\b/i.test(sql);

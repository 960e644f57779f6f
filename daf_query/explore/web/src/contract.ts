// What the server sends and takes, as types. Nothing here does anything.

export type ValueSort = "number" | "string" | "boolean" | "date" | string;

export interface VectorEntry {
  readonly name: string;
  readonly type: string;
  readonly kind: ValueSort;
}

export interface Axis {
  readonly name: string;
  readonly length: number | null; // null where the axis cannot be read
  readonly problem?: string | null;
  readonly vectors: readonly VectorEntry[];
  readonly embeddings: readonly string[];
}

export interface Matrix {
  readonly rows: string;
  readonly columns: string;
  readonly name: string;
  readonly type: string;
  readonly layouts: readonly string[] | string | null;
  readonly is_sparse?: boolean;
  readonly stored: number | null;
}

export interface DataSet {
  readonly schema: string;
  readonly path: string;
  readonly form: string;
  readonly is_collection: boolean; // `dataset` and name together identify an entry
  readonly axes: readonly Axis[];
  readonly matrices: readonly Matrix[];
  readonly scalars: Readonly<Record<string, unknown>>;
}

export interface Catalogue {
  readonly version: number; // another number: other data
  readonly writable: boolean;
  readonly overlay: string | null;
  readonly selection: string; // the table of what is selected
  readonly limits: { readonly rows: number; readonly bytes: number; readonly seconds: number };
  readonly data_sets: readonly DataSet[];
}

export interface Summary {
  readonly count: number;
  readonly nulls: number;
  readonly min: number | string | null;
  readonly max: number | string | null;
  readonly bins: readonly number[] | null;
  readonly top: readonly (readonly [string | number | boolean | null, number])[] | null;
  readonly distinct: number | null;
}

/** How a query ended, which is sent behind its rows. */
export type QueryEnd = { readonly truncated: boolean; readonly seconds: number } | { readonly error: Problem };

export interface Problem {
  readonly error: string;
  readonly message: string;
  readonly line: number | null;
  readonly column: number | null;
  readonly length: number | null;
  readonly remedy: string | null;
}

export interface GeneName {
  readonly matrix: string;
  readonly columns: string;
  readonly name: string;
}

export type ColourBy = { readonly vector: string } | { readonly sql: string } | { readonly gene: GeneName };

export interface ExtractRequest {
  readonly schema: string;
  readonly rows_axis: string;
  readonly columns_axis: string;
  readonly matrix: string;
  readonly rows: string | null;
  readonly selection: boolean;
  readonly columns: string | null;
}

export interface Estimate {
  readonly rows: number;
  readonly columns: number;
  readonly stored: number | null;
  readonly bytes: number;
}

export interface Profile {
  readonly groups: readonly string[];
  readonly columns: readonly string[];
  readonly mean: readonly (readonly (number | null)[])[];
  readonly fraction: readonly (readonly (number | null)[])[];
  readonly sizes: readonly number[];
}

// The state that a link holds: the query, the embedding and the colour, in the fragment of the address.
import type { ColourBy } from "./contract";

export interface LinkState {
  readonly sql: string;
  readonly schema: string;
  readonly axis: string;
  readonly embedding: string;
  readonly colour: ColourBy | null;
}

export function readLink(): Partial<LinkState> {
  const values = new URLSearchParams(location.hash.slice(1));
  const state: { -readonly [Key in keyof LinkState]?: LinkState[Key] } = {};
  for (const key of ["sql", "schema", "axis", "embedding"] as const) {
    const value = values.get(key);
    if (value !== null) state[key] = value;
  }
  const [vector, expression, gene] = [values.get("vector"), values.get("expression"), values.get("gene")];
  if (vector !== null) state.colour = { vector };
  else if (expression !== null) state.colour = { sql: expression };
  else if (gene !== null) {
    state.colour = {
      gene: { name: gene, matrix: values.get("matrix") ?? "", columns: values.get("columns") ?? "" },
    };
  } else if (values.has("axis")) state.colour = null;
  return state;
}

function write(state: LinkState): string {
  const values = new URLSearchParams();
  for (const key of ["sql", "schema", "axis", "embedding"] as const) if (state[key]) values.set(key, state[key]);
  const colour = state.colour;
  if (colour && "vector" in colour) values.set("vector", colour.vector);
  else if (colour && "sql" in colour) values.set("expression", colour.sql);
  else if (colour) for (const key of ["matrix", "columns"] as const) values.set(key, colour.gene[key]);
  if (colour && "gene" in colour) values.set("gene", colour.gene.name);
  return `#${values}`;
}

/** Put the state into the address: a new step for the back button, unless nothing changed. */
export function writeLink(state: LinkState, { replace = false } = {}): void {
  const fragment = write(state);
  if (fragment === location.hash) return;
  if (replace) history.replaceState(null, "", fragment);
  else history.pushState(null, "", fragment);
}

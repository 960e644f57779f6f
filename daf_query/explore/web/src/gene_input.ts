// A text field for an entry of an axis, such as a gene, with what the server knows offered while one types.
import { getEntries } from "./api";
import { freshId, h } from "./dom";

export interface EntryField {
  readonly input: HTMLInputElement;
  readonly list: HTMLDataListElement;
}

/** Make the field; `axis` tells which axis at the time of typing. The last word counts where several are typed. */
export function entryField(
  label: string, axis: () => { schema: string; axis: string } | null, { several = false } = {},
): EntryField {
  const list = h("datalist", { id: freshId("entries") });
  let latest = 0;
  const offer = async (text: string): Promise<void> => {
    const place = axis();
    latest += 1;
    const request = latest;
    if (!place) return;
    const start = several ? text.slice(0, text.search(/[^,\s]*$/)) : "";
    const prefix = text.slice(start.length);
    try {
      const { entries } = await getEntries(place.schema, place.axis, prefix, 30);
      if (request === latest) list.replaceChildren(...entries.map((name) => h("option", { value: start + name })));
    } catch {
      list.replaceChildren();
    }
  };
  const input = h("input", {
    type: "text", list: list.id, "aria-label": label, placeholder: label, autocomplete: "off", spellcheck: "false",
    input: () => void offer(input.value), focus: () => void offer(input.value),
  });
  return { input, list };
}

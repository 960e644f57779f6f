// Separators between the parts, moved with the mouse or the arrow keys; and tabs.
import { h } from "./dom";

export interface Sides {
  readonly label: string;
  readonly variable: string; // of the style sheet: the size of one side, in pixels
  readonly horizontal: boolean;
  readonly reversed: boolean; // whether the size grows to the left
  readonly least: number;
  readonly most: () => number;
}

/** A separator that sets a variable of the style sheet. */
export function separator(root: HTMLElement, side: () => HTMLElement, sides: Sides): HTMLElement {
  const size = (): number => (sides.horizontal ? side().offsetWidth : side().offsetHeight);
  const set = (pixels: number): void => {
    const limited = Math.min(Math.max(pixels, sides.least), sides.most());
    root.style.setProperty(sides.variable, `${Math.round(limited)}px`);
    announceSize(limited);
  };
  const announceSize = (pixels: number): void => {
    element.setAttribute("aria-valuenow", String(Math.round(pixels)));
    element.setAttribute("aria-valuemax", String(Math.round(Math.max(sides.most(), pixels))));
  };
  const element = h("div", {
    role: "separator", tabindex: 0, class: `separator ${sides.horizontal ? "vertical" : "horizontal"}`, "aria-label": sides.label,
    "aria-orientation": sides.horizontal ? "vertical" : "horizontal", "aria-valuemin": sides.least, "aria-valuenow": sides.least,
    focus: () => announceSize(size()),
    pointerdown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      const start = sides.horizontal ? event.clientX : event.clientY;
      const before = size();
      element.setPointerCapture(event.pointerId);
      element.onpointermove = (motion) => {
        const moved = (sides.horizontal ? motion.clientX : motion.clientY) - start;
        set(before + (sides.reversed ? -moved : moved));
      };
      element.onlostpointercapture = () => { element.onpointermove = null; }; // released, or taken away
    },
    keydown: (event: KeyboardEvent) => {
      const directions: Record<string, number> = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
      const direction = directions[event.key];
      if (!direction) return;
      event.preventDefault();
      set(size() + 24 * (sides.reversed ? -direction : direction));
    },
  });
  return element;
}

export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly panel: HTMLElement;
  readonly opened?: () => void;
}

/** Tabs as the pattern of ARIA has them: arrow keys go from one to the next. */
export class Tabs {
  readonly list: HTMLElement;
  readonly panels: HTMLElement;
  current: string;

  constructor(private readonly tabs: readonly Tab[], label: string) {
    this.current = tabs[0]?.id ?? "";
    this.list = h("div", { role: "tablist", class: "tabs", "aria-label": label, keydown: (event: KeyboardEvent) => this.key(event) },
      ...tabs.map(({ id, label: text }) => h("button", {
        type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, click: () => this.open(id),
      }, text)));
    this.panels = h("div", { class: "tab-panels" }, ...tabs.map(({ id, panel }) =>
      h("div", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, class: "tab-panel" }, panel)));
    this.open(this.current);
  }

  open(id: string): void {
    this.current = id;
    for (const tab of this.tabs) {
      const chosen = tab.id === id;
      const button = this.list.querySelector(`#tab-${tab.id}`);
      button?.setAttribute("aria-selected", String(chosen));
      button?.setAttribute("tabindex", chosen ? "0" : "-1");
      const panel = this.panels.querySelector<HTMLElement>(`#panel-${tab.id}`);
      if (panel) panel.hidden = !chosen;
      if (chosen) tab.opened?.();
    }
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const place = this.tabs.findIndex(({ id }) => id === this.current);
    const next = this.tabs[(place + step + this.tabs.length) % this.tabs.length] as Tab;
    this.open(next.id);
    this.list.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
  }
}

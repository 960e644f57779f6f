// Elements made of names, attributes and text. Text is only ever set as text.

type Attribute = string | number | boolean | null | undefined | ((event: any) => void);
type Child = Node | string | number | null | undefined | false;

function assign(element: Element, attributes: Readonly<Record<string, Attribute>>): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

function fill(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Make an HTML element; a function among the attributes is a listener of that event. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, attributes: Readonly<Record<string, Attribute>> = {}, ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  assign(element, attributes);
  fill(element, children);
  return element;
}

/** Make an SVG element. */
export function svg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag, attributes: Readonly<Record<string, Attribute>> = {}, ...children: Child[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  assign(element, attributes);
  fill(element, children);
  return element;
}

const ICONS = {
  play: "M5 3.5v9l7.5-4.5z",
  stop: "M4.5 4.5h7v7h-7z",
  lasso: "M8 2.5c3.3 0 5.8 1.7 5.8 4s-2.5 4-5.8 4c-1 0-2-.2-2.800-.5M5.200 10c-1.900-.7-3-2-3-3.500 0-2.300 2.500-4 5.800-4M5.200 10c.9 0 1.500.6 1.500 1.300S6 12.600 5.200 12.600s-1.500-.6-1.500-1.300.6-1.300 1.500-1.300M5.500 12.600c0 1-.4 1.700-1.200 2.200",
  move: "M8 1.800v12.400M1.800 8h12.400M8 1.800 6.200 3.600M8 1.800l1.800 1.800M8 14.200l-1.800-1.800M8 14.200l1.800-1.800M1.800 8l1.800-1.800M1.800 8l1.800 1.800M14.200 8l-1.800-1.800M14.200 8l-1.800 1.800",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.500 6V2.500H6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10",
  image: "M2.500 3h11v10h-11zM2.500 11l3.500-3.500 2.500 2.500 2-2 3 3M10.500 6h.01",
  clock: "M8 2.200a5.800 5.800 0 1 0 0 11.600A5.800 5.800 0 0 0 8 2.200M8 4.800V8l2.200 1.500",
  link: "M6.800 9.200a2.600 2.600 0 0 0 3.700 0l2.200-2.200a2.600 2.600 0 0 0-3.700-3.700l-.8.8M9.200 6.800a2.600 2.600 0 0 0-3.700 0L3.300 9a2.600 2.600 0 0 0 3.700 3.700l.8-.8",
  help: "M8 2.200a5.800 5.800 0 1 0 0 11.600A5.800 5.800 0 0 0 8 2.200M6.400 6.400c0-.9.7-1.600 1.600-1.600s1.600.7 1.600 1.500c0 1.200-1.600 1.300-1.600 2.500M8 11v.1",
  drop: "M8 2.200s4.200 4.200 4.200 7.200a4.200 4.200 0 0 1-8.400 0c0-3 4.200-7.200 4.200-7.200z",
  insert: "M3 8h8M8 4.800 11.200 8 8 11.200M13.500 3v10",
  close: "M4 4l8 8M12 4l-8 8",
} as const;

export type IconName = keyof typeof ICONS;

export function icon(name: IconName): SVGSVGElement {
  return svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" },
    svg("path", { d: ICONS[name] }));
}

/** A button with a picture, and a name that is read out and shown as its title. */
export function iconButton(
  name: IconName, label: string, onClick: (event: MouseEvent) => void, more: Readonly<Record<string, Attribute>> = {},
): HTMLButtonElement {
  return h("button", { type: "button", class: "icon-button", title: label, "aria-label": label, click: onClick, ...more },
    icon(name));
}

export function option(value: string, label: string, chosen = false): HTMLOptionElement {
  return h("option", { value, selected: chosen }, label);
}

/** Replace what an element has; the control that had the focus has it again, by its name. */
export function redraw(element: HTMLElement, ...content: Node[]): void {
  const focused = element.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
  element.replaceChildren(...content);
  if (focused) element.querySelector<HTMLElement>(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
}

let counter = 0;

/** A new id, for labels. */
export function freshId(prefix: string): string {
  counter += 1;
  return `${prefix}-${counter}`;
}

const polite = h("div", { role: "status", "aria-live": "polite", class: "visually-hidden" });

/** Say something to those who listen rather than look. */
export function announce(text: string): void {
  if (!polite.isConnected) document.body.append(polite);
  polite.textContent = text;
}

const toasts = h("div", { class: "toasts" });

/** Show a short message that goes away; a problem stays longer, and interrupts screen readers. */
export function toast(text: string, { problem = false } = {}): void {
  if (!toasts.isConnected) document.body.append(toasts);
  const message = h("div", { class: problem ? "toast problem" : "toast", role: problem ? "alert" : "status" }, text);
  toasts.append(message);
  setTimeout(() => message.remove(), problem ? 9000 : 4000);
}

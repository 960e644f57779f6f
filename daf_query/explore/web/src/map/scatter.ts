// The scatter on the page: camera, mouse, keys and lasso around the renderer.
import { h, svg } from "../dom";
import { type Camera, type Bounds, boundsOf, fit, pan, toData, type View, zoom } from "./camera";
import type { Colouring } from "./colours";
import { nearest, within } from "./find";
import { Renderer } from "./renderer";

export type Combining = "replace" | "add" | "remove";

export interface ScatterListener {
  selected(positions: Uint32Array, combining: Combining): void;
  picked(position: number | null): void;
  modeChanged(lasso: boolean): void;
  escaped(): void;
}

const SLOW_FRAME = 34; // milliseconds; beyond it, fewer points are drawn while the picture moves
const REST = 140; // milliseconds without motion, after which all points are drawn
const MOST_SKIPPED = 16;
const CLICK_PIXELS = 10;
const NOWHERE: Bounds = { left: -1, right: 1, bottom: -1, top: 1 };

function combiningOf(event: MouseEvent): Combining {
  return event.shiftKey ? "add" : event.altKey ? "remove" : "replace";
}

export class Scatter {
  readonly element: HTMLDivElement;
  readonly canvas: HTMLCanvasElement;
  lasso = false;
  private readonly outline = svg("polygon", { class: "lasso" });
  private readonly overlay = svg("svg", { class: "overlay", "aria-hidden": "true" }, this.outline);
  private readonly renderer: Renderer;
  private points = new Float32Array(0);
  private bounds: Bounds = NOWHERE;
  private camera: Camera = { x: 0, y: 0, unitsPerPixel: 1 };
  private path: number[] = [];
  private drag: { x: number; y: number; moved: boolean; id: number; lasso: boolean } | null = null;
  private requested = 0;
  private everyNth = 1;
  private moving = false;
  private lastFrame = 0;
  private wasMoving = false;
  private rest = 0;
  private firstPicture: (() => void) | null = null;
  // What the renderer has, for a graphics context that is lost
  private colouring: Colouring | null = null;
  private lit: Uint32Array | null = null;
  private shown: ReadonlySet<number> | null = null;

  constructor(private readonly listener: ScatterListener) {
    this.canvas = h("canvas", { class: "scatter-canvas", tabindex: 0, role: "application", "aria-label": "Embedding" });
    this.element = h("div", { class: "scatter" }, this.canvas, this.overlay);
    this.renderer = new Renderer(this.canvas);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.request());
  }

  private listen(): void {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", () => this.endDrag());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.restore());
  }

  private restore(): void {
    this.renderer.prepare();
    this.renderer.setPoints(this.points);
    if (this.colouring) this.renderer.setColours(this.colouring);
    this.renderer.showCodes(this.shown);
    this.renderer.light(this.lit);
    this.request();
  }

  /** Show other points, all of them in view. `drawn` is called when the picture is there. */
  setPoints(points: Float32Array<ArrayBuffer>, colouring: Colouring, drawn: () => void): void {
    this.points = points;
    this.lit = null;
    this.everyNth = 1;
    this.bounds = boundsOf(points) ?? NOWHERE;
    this.renderer.setPoints(points);
    this.firstPicture = drawn;
    this.setColours(colouring);
    this.fit();
  }

  /** Whether any point can be seen. */
  get hasPlaces(): boolean {
    return this.bounds !== NOWHERE;
  }

  setColours(colouring: Colouring): void {
    this.colouring = colouring;
    this.shown = null;
    this.renderer.setColours(colouring);
    this.request();
  }

  showCodes(codes: ReadonlySet<number> | null): void {
    this.shown = codes;
    this.renderer.showCodes(codes);
    this.request();
  }

  light(positions: Uint32Array | null): void {
    this.lit = positions;
    this.renderer.light(positions);
    this.request();
  }

  setLasso(lasso: boolean): void {
    this.lasso = lasso;
    this.element.classList.toggle("lassoing", lasso);
    this.listener.modeChanged(lasso);
  }

  fit(): void {
    this.camera = fit(this.bounds, this.view);
    this.request();
  }

  zoomBy(factor: number): void {
    this.camera = zoom(this.camera, this.view, factor);
    this.moved();
  }

  /** The picture as a PNG. */
  picture(): Promise<Blob | null> {
    this.draw(1);
    return new Promise((resolve) => this.canvas.toBlob(resolve));
  }

  private get view(): View {
    return { width: Math.max(this.element.clientWidth, 1), height: Math.max(this.element.clientHeight, 1) };
  }

  private get ratio(): number {
    return Math.min(window.devicePixelRatio || 1, 2);
  }

  private resize(): void {
    const { width, height } = this.view;
    const before = { width: this.canvas.width / this.ratio, height: this.canvas.height / this.ratio };
    const wasFit = this.camera.unitsPerPixel === fit(this.bounds, before).unitsPerPixel;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    if (wasFit || before.width <= 1) this.camera = fit(this.bounds, this.view);
    this.request();
  }

  private request(): void {
    if (this.requested) return;
    this.requested = requestAnimationFrame((now) => {
      this.requested = 0;
      this.onFrame(now);
    });
  }

  private moved(): void {
    this.moving = true;
    clearTimeout(this.rest);
    this.request();
  }

  /** While the picture moves and frames are slow, only every nth point is drawn; when it rests, all are. */
  private onFrame(now: number): void {
    const moving = this.moving;
    const took = now - this.lastFrame;
    if (moving && this.wasMoving) {
      if (took > SLOW_FRAME && this.points.length > 200_000) this.everyNth *= Math.min(Math.max(took / SLOW_FRAME, 1.2), 8);
      else if (took < SLOW_FRAME / 2) this.everyNth *= 0.9;
      this.everyNth = Math.min(Math.max(this.everyNth, 1), MOST_SKIPPED);
    }
    if (moving) {
      clearTimeout(this.rest);
      this.rest = window.setTimeout(() => {
        this.moving = false;
        this.request();
      }, REST);
    }
    this.wasMoving = moving;
    this.lastFrame = now;
    this.draw(moving ? this.everyNth : 1);
    if (this.firstPicture && this.points.length) {
      this.renderer.finish();
      this.firstPicture();
      this.firstPicture = null;
    }
  }

  private draw(everyNth: number): void {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.renderer.draw({
      camera: this.camera,
      view: this.view,
      ratio: this.ratio,
      zoomed: fit(this.bounds, this.view).unitsPerPixel / this.camera.unitsPerPixel,
      ground: dark ? [0.075, 0.086, 0.106] : [1, 1, 1],
      everyNth,
    });
  }

  private at(event: MouseEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0 || !event.isPrimary) return;
    const [x, y] = this.at(event);
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x, y, moved: false, id: event.pointerId, lasso: this.lasso || event.shiftKey };
    this.path = [x, y];
  }

  private move(event: PointerEvent): void {
    const drag = this.drag;
    if (!drag || drag.id !== event.pointerId) return;
    const [x, y] = this.at(event);
    if (Math.hypot(x - drag.x, y - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    if (drag.lasso) {
      this.path.push(x, y);
      this.outline.setAttribute("points", this.path.join(" "));
    } else {
      this.camera = pan(this.camera, x - drag.x, y - drag.y);
      drag.x = x;
      drag.y = y;
      this.moved();
    }
  }

  private up(event: PointerEvent): void {
    const drag = this.drag;
    if (!drag || drag.id !== event.pointerId) return;
    const path = this.path;
    this.endDrag();
    if (!drag.moved) {
      const [x, y] = toData(this.camera, this.view, ...this.at(event));
      const position = nearest(this.points, x, y, CLICK_PIXELS * this.camera.unitsPerPixel);
      if (position !== null && event.shiftKey) this.listener.selected(Uint32Array.of(position), "add");
      else this.listener.picked(position);
    } else if (drag.lasso && path.length >= 6) {
      const polygon = new Float64Array(path.length);
      for (let place = 0; place < path.length; place += 2) {
        polygon.set(toData(this.camera, this.view, path[place] as number, path[place + 1] as number), place);
      }
      this.listener.selected(within(this.points, polygon), combiningOf(event));
    }
  }

  private endDrag(): void {
    this.drag = null;
    this.path = [];
    this.outline.setAttribute("points", "");
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const amount = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 16 : event.deltaY;
    this.camera = zoom(this.camera, this.view, Math.exp(-amount * 0.0016), ...this.at(event));
    this.moved();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? 160 : 48;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.panBy(step, 0), ArrowRight: () => this.panBy(-step, 0),
      ArrowUp: () => this.panBy(0, step), ArrowDown: () => this.panBy(0, -step),
      "+": () => this.zoomBy(1.3), "=": () => this.zoomBy(1.3), "-": () => this.zoomBy(1 / 1.3), "0": () => this.fit(),
      l: () => this.setLasso(!this.lasso),
      s: () => this.selectView(),
      Escape: () => (this.drag?.lasso ? this.endDrag() : this.listener.escaped()),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  private panBy(right: number, down: number): void {
    this.camera = pan(this.camera, right, down);
    this.moved();
  }

  /** Select all points in view: a lasso for those without a mouse. */
  selectView(): void {
    const { width, height } = this.view;
    const corners = [[0, 0], [width, 0], [width, height], [0, height]] as const;
    const polygon = Float64Array.from(corners.flatMap(([x, y]) => toData(this.camera, this.view, x, y)));
    this.listener.selected(within(this.points, polygon), "replace");
  }
}

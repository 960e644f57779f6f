// Which part of the plane is in view: a centre and the data units of one pixel. Pure.

export interface Bounds {
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  readonly top: number;
}

export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly unitsPerPixel: number;
}

export interface View {
  readonly width: number;
  readonly height: number;
}

/** The bounds of points; those with a NaN do not count. Null where all have. */
export function boundsOf(points: Float32Array): Bounds | null {
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let place = 0; place < points.length; place += 2) {
    const x = points[place] as number;
    const y = points[place + 1] as number;
    if (!(Number.isFinite(x) && Number.isFinite(y))) continue;
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < bottom) bottom = y;
    if (y > top) top = y;
  }
  return left <= right ? { left, right, bottom, top } : null;
}

export function fit(bounds: Bounds, view: View): Camera {
  const room = 0.92;
  const width = Math.max(bounds.right - bounds.left, 1e-9);
  const height = Math.max(bounds.top - bounds.bottom, 1e-9);
  return {
    x: (bounds.left + bounds.right) / 2,
    y: (bounds.bottom + bounds.top) / 2,
    unitsPerPixel: Math.max(width / (view.width * room), height / (view.height * room)),
  };
}

export const pan = (camera: Camera, right: number, down: number): Camera =>
  ({ ...camera, x: camera.x - right * camera.unitsPerPixel, y: camera.y + down * camera.unitsPerPixel });

/** Zoom by a factor; the point under the pixel stays where it is. */
export function zoom(camera: Camera, view: View, factor: number, pixelX = view.width / 2, pixelY = view.height / 2): Camera {
  const [x, y] = toData(camera, view, pixelX, pixelY);
  const unitsPerPixel = camera.unitsPerPixel / factor;
  return { x: x - (pixelX - view.width / 2) * unitsPerPixel, y: y + (pixelY - view.height / 2) * unitsPerPixel, unitsPerPixel };
}

export function toData(camera: Camera, view: View, pixelX: number, pixelY: number): [number, number] {
  return [camera.x + (pixelX - view.width / 2) * camera.unitsPerPixel, camera.y - (pixelY - view.height / 2) * camera.unitsPerPixel];
}

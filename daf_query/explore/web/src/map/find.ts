// Which points lie within a polygon, or nearest to a place. One pass over the coordinates; pure.

/** Positions of the points within a closed polygon of data coordinates (x, y, x, y, ...), ascending. */
export function within(points: Float32Array, polygon: Float64Array): Uint32Array {
  const corners = polygon.length / 2;
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let corner = 0; corner < corners; corner += 1) {
    left = Math.min(left, polygon[2 * corner] as number);
    right = Math.max(right, polygon[2 * corner] as number);
    bottom = Math.min(bottom, polygon[2 * corner + 1] as number);
    top = Math.max(top, polygon[2 * corner + 1] as number);
  }
  const inside: number[] = [];
  for (let place = 0; place < points.length; place += 2) {
    const x = points[place] as number;
    const y = points[place + 1] as number;
    if (!(x >= left && x <= right && y >= bottom && y <= top)) continue;
    let odd = false;
    for (let corner = 0, last = corners - 1; corner < corners; last = corner++) {
      const y1 = polygon[2 * corner + 1] as number;
      const y2 = polygon[2 * last + 1] as number;
      if (y1 > y === y2 > y) continue;
      const x1 = polygon[2 * corner] as number;
      if (x < ((polygon[2 * last] as number) - x1) * (y - y1) / (y2 - y1) + x1) odd = !odd;
    }
    if (odd) inside.push(place / 2);
  }
  return Uint32Array.from(inside);
}

/** The point nearest to a place and within a radius, or null. */
export function nearest(points: Float32Array, x: number, y: number, radius: number): number | null {
  let best = radius * radius;
  let position: number | null = null;
  for (let place = 0; place < points.length; place += 2) {
    const right = (points[place] as number) - x;
    const up = (points[place + 1] as number) - y;
    const distance = right * right + up * up;
    if (distance < best) {
      best = distance;
      position = place / 2;
    }
  }
  return position;
}

/** The union (or, with `remove`, the difference) of two ascending lists of positions. */
export function combine(positions: Uint32Array, others: Uint32Array, { remove = false } = {}): Uint32Array {
  const result = new Uint32Array(remove ? positions.length : positions.length + others.length);
  let [count, left, right] = [0, 0, 0];
  while (left < positions.length || right < others.length) {
    const [one, other] = [positions[left] ?? Infinity, others[right] ?? Infinity];
    if (remove ? one < other : true) result[count++] = Math.min(one, other);
    if (one <= other) left += 1;
    if (other <= one) right += 1;
    if (remove && left >= positions.length) break;
  }
  return result.slice(0, count);
}

// Numbers, bytes and values as text that people read.
const whole = new Intl.NumberFormat("en-US");

export const formatCount = (count: number): string => whole.format(count);

export function plural(count: number, word: string): string {
  return `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** What several entries of an axis are called, where its name is a plain word: cells, batches, but obs. */
export function entriesOf(axis: string): string {
  if (!/^[a-z]{3,}$/i.test(axis) || /^var$|s$/i.test(axis)) return axis; // AnnData says "5 obs, 3 var"
  if (/[^aeiou]y$/i.test(axis)) return `${axis.slice(0, -1)}ies`;
  return /(?:ch|sh|x|z)$/i.test(axis) ? `${axis}es` : `${axis}s`;
}

/** A number of entries of an axis: "1 cell", "59,765 obs". */
export const countOf = (count: number, axis: string): string => `${formatCount(count)} ${count === 1 ? axis : entriesOf(axis)}`;

/** At most five significant digits; large and small ones with an exponent. */
export function formatNumber(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return whole.format(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(3);
  return String(Number(value.toPrecision(5)));
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  let amount = bytes;
  while (amount >= 1024 && step < units.length - 1) {
    amount /= 1024;
    step += 1;
  }
  return `${step === 0 ? amount : amount.toFixed(1)} ${units[step]}`;
}

export function formatSeconds(seconds: number): string {
  return seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : `${seconds.toFixed(1)} s`;
}

/** The last part of a path; of a data set with an overlay, that of each. */
export function shortPath(path: string): string {
  return path.split(" + ").map((part) => part.split("/").pop() || part).join(" + ");
}

/** The name of an error class as words: "Vector not found", "Query error". */
export function errorWords(name: string): string {
  const words = name.replace(/Error$/, "").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  const sentence = words.charAt(0).toUpperCase() + words.slice(1);
  return words.includes(" ") ? sentence : `${sentence} error`;
}

// Queries that were run in this browser, newest first.
const KEY = "daf-explore-history";
const MOST = 100;

export function readHistory(): string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter((entry) => typeof entry === "string") : [];
  } catch {
    return [];
  }
}

export function remember(sql: string): void {
  const query = sql.trim();
  if (!query) return;
  const entries = [query, ...readHistory().filter((entry) => entry !== query)];
  try {
    localStorage.setItem(KEY, JSON.stringify(entries.slice(0, MOST)));
  } catch {
    // A browser that keeps nothing has no history.
  }
}

export function forgetHistory(): void {
  localStorage.removeItem(KEY);
}

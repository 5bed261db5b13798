/** Longer statements are cut. */
const SHOWN_MAX = 1_500;

/** Returns what PostgreSQL's log says about server processes that a signal ended: the signal, and their statements. */
export function crashesIn(log: string): readonly string[] {
  const crashes = log.matchAll(
    /was terminated by (signal \d+[^\n]*)(?:\n[^\n]*DETAIL:\s+([^\n]*(?:\n\t[^\n]*)*))?/g,
  );
  return [...crashes].map(([, signal = "", detail = "no statement"]) =>
    `${signal}: ${detail.replaceAll(/\s+/g, " ")}`.slice(0, SHOWN_MAX),
  );
}

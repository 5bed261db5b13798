/** Tests that this machine cannot run. */

const said = new Set<string>();

/**
 * Says once per process that tests are skipped: `SKIPPED: <tests>, because <reason>`, which the end of a run counts.
 * For `skipIf`:
 *
 *   describe.skipIf(skipUnless(hasGo, "the Go example", "go is not on PATH"))
 *
 * @returns whether to skip them
 */
export function skipUnless(possible: boolean, tests: string, reason: string): boolean {
  const line = `SKIPPED: ${tests}, because ${reason.trim().replaceAll(/\s+/g, " ")}`;
  if (!possible && !said.has(line)) {
    said.add(line);
    console.warn(line);
  }
  return !possible;
}

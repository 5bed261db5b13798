/** Tests that this machine cannot run. */
import { spawnSync } from "node:child_process";

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

/**
 * The same for tests that need a command to succeed: a program that works, or also reaches its registry.
 *
 * @param command its words, with single spaces
 */
export function lacks(tests: string, command: string): boolean {
  const [program = "", ...args] = command.split(" ");
  const { status, error, stderr } = spawnSync(program, args, { timeout: 60_000 });
  const missing = error !== undefined && "code" in error && error.code === "ENOENT";
  const source = program === "go" ? "https://go.dev/dl has it" : ".ci/programs installs it";
  const reason = missing ? source : (error?.message ?? stderr.toString().slice(0, 200));
  return skipUnless(status === 0, tests, `${command} fails: ${reason}`);
}

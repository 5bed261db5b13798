/** The command line inside the test's own process, with the settings that a test gives it. */
import { runCommandLine } from "../../src/cli/program.ts";
import { type Environment, loadOperatorSettings } from "../../src/config.ts";

export interface CommandRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command to its end. */
export async function runSignet(
  line: readonly string[],
  environment: Environment,
  fetchThere: typeof fetch = fetch,
): Promise<CommandRun> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCommandLine(line, {
    settings: () => loadOperatorSettings(environment),
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
    fetch: fetchThere,
  });
  return { code, stdout: out.join(""), stderr: err.join("") };
}

/** Runs the command line inside the test process, with the test's settings. */
import { runCommandLine } from "#cli/program.ts";
import { type Environment, loadClientSettings, loadOperatorSettings } from "#config/config.ts";

export interface CommandRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandSurroundings {
  readonly fetch?: typeof fetch;
  /** Settings for tenant commands (default: none). */
  readonly asTenant?: Environment;
}

/** Runs a command to completion. */
export async function runSignet(
  line: readonly string[],
  environment: Environment,
  { fetch: fetchThere = fetch, asTenant }: CommandSurroundings = {},
): Promise<CommandRun> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCommandLine(line, {
    settings: () => loadOperatorSettings(environment),
    ...(asTenant === undefined ? {} : { clientSettings: () => loadClientSettings(asTenant) }),
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
    fetch: fetchThere,
  });
  return { code, stdout: out.join(""), stderr: err.join("") };
}

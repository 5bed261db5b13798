/**
 * Entry point of the command line's bundle, which holds every command but those that run a process: src/bootstrap.mjs
 * starts those from main.ts. The bundle declares them for --help and completion.
 */
import { PROCESS_COMMANDS } from "#cli/process-commands.ts";
import type { ProcessRunners } from "#cli/program.ts";
import { runHere } from "./command-line.ts";

const elsewhere = async (): Promise<never> =>
  await Promise.reject(new Error("main.ts runs the commands of processes"));

await runHere(
  Object.fromEntries(PROCESS_COMMANDS.map(({ name }) => [name, elsewhere])) as unknown as ProcessRunners,
);

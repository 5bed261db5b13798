/** What a command works with: the operators' API and where to print. Both are arguments, so that tests can be both. */
import type { OperatorSettings } from "../config.ts";

export interface CliContext {
  /** Reads the settings when a command needs them: `--help` must work without. */
  readonly settings: () => OperatorSettings;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly fetch: typeof fetch;
}

/** A command that failed for a reason that the user can act on; exit code 1. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

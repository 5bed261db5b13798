/** What a command works with: settings, the network and where to print. All are arguments, so that tests can be them. */
import type { ClientSettings, OperatorSettings } from "../config/config.ts";

export { CommandError } from "./exit-codes.ts";

/** What stands at the other end of the outputs. */
export interface Terminal {
  /** Standard output takes colours. */
  readonly colour: boolean;
  /** Standard error takes a line that is written over and over. */
  readonly progress: boolean;
}

export interface CliContext {
  /** Reads the settings when a command needs them: `--help` must work without. */
  readonly settings: () => OperatorSettings;
  /** The same for commands of a tenant; without it there are none. */
  readonly clientSettings?: () => ClientSettings;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly fetch: typeof fetch;
  /** What people type for this program; `signet` unless said otherwise. */
  readonly program?: string | undefined;
  /** Neither unless said otherwise. */
  readonly terminal?: Terminal;
}

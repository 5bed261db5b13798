/** The environment of a command: settings, network and outputs. All are parameters, so that tests can replace them. */
import type { ClientSettings, OperatorSettings } from "#config/config.ts";

export { CommandError } from "./exit-codes.ts";

/** Abilities of the terminal behind the outputs. */
export interface Terminal {
  /** Standard output supports colours. */
  readonly colour: boolean;
  /** Width of standard output, in characters; undefined if it is not a terminal. */
  readonly columns?: number | undefined;
  /** Standard error supports a line that is rewritten in place. */
  readonly progress: boolean;
  /** Standard output is a screen, which a command may clear. */
  readonly screen?: boolean;
}

export interface CliContext {
  /** Reads the settings when a command needs them; `--help` must work without them. */
  readonly settings: () => OperatorSettings;
  /** Reads the settings of tenants' commands; if undefined, tenants' commands fail. */
  readonly clientSettings?: () => ClientSettings;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly fetch: typeof fetch;
  /** Name of this program as people type it; `signet` by default. */
  readonly program?: string | undefined;
  /** By default, neither is supported. */
  readonly terminal?: Terminal;
}

/** What commands end with. Scripts depend on these: a code keeps its meaning. */
import { ComplianceProofError } from "../lib/transparency-log/compliance-proof.ts";
import { CredentialStoreError, SignetApiError, SignetTransportError } from "../lib/client/errors.ts";
import { NoteError } from "../lib/transparency-log/signed-note.ts";
import { ConfigError } from "../config/config.ts";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  conflict: 5,
  unavailable: 6,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** For `--help` and docs/cli.md. */
export const EXIT_CODES: readonly (readonly [ExitCode, string])[] = [
  [EXIT.ok, "done"],
  [EXIT.failed, "it failed, or the service refused what was asked for"],
  [EXIT.usage, "the command line was not understood"],
  [EXIT.notFound, "there is no such thing (404)"],
  [EXIT.notAllowed, "no credential, a wrong one, or one that may not (401, 403)"],
  [EXIT.conflict, "its state does not allow it, or not any more (409, 410)"],
  [EXIT.unavailable, "no answer, or not now (429, 502, 503, 504): try again later"],
];

/** A command that failed for a reason that the user can act on. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;

  constructor(message: string, { exitCode = EXIT.failed, ...options }: CommandErrorOptions = {}) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

export interface CommandErrorOptions extends ErrorOptions {
  readonly exitCode?: ExitCode;
}

/** What was typed was not understood; exit code 2. */
export function misused(message: string): CommandError {
  return new CommandError(message, { exitCode: EXIT.usage });
}

/** The exit code that an HTTP status stands for. */
export function exitCodeOfStatus(status: number): ExitCode {
  switch (status) {
    case 401:
    case 403:
      return EXIT.notAllowed;
    case 404:
      return EXIT.notFound;
    case 409:
    case 410:
      return EXIT.conflict;
    case 429:
    case 502:
    case 503:
    case 504:
      return EXIT.unavailable;
    default:
      return EXIT.failed;
  }
}

/** What to end with after an error whose message is for people; undefined for one that nobody expected. */
export function exitCodeOfError(error: unknown): ExitCode | undefined {
  if (error instanceof CommandError) {
    return error.exitCode;
  }
  if (error instanceof SignetApiError) {
    // RFC 6749 answers a wrong client with 401, or with 400 where nothing was presented.
    return error.code === "INVALID_CLIENT" ? EXIT.notAllowed : exitCodeOfStatus(error.status);
  }
  if (error instanceof SignetTransportError) {
    return EXIT.unavailable;
  }
  if (error instanceof CredentialStoreError) {
    return EXIT.notAllowed;
  }
  const told =
    error instanceof ConfigError || error instanceof NoteError || error instanceof ComplianceProofError;
  return told ? EXIT.failed : undefined;
}

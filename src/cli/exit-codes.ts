/** Exit codes of commands. Scripts depend on them, so the meaning of a code must not change. */
import { ComplianceProofError } from "#lib/transparency-log/compliance-proof.ts";
import {
  CredentialStoreError,
  type Problem,
  SignetApiError,
  SignetTransportError,
} from "#lib/client/errors.ts";
import { NoteError } from "#lib/transparency-log/signed-note.ts";
import { ConfigError } from "#config/config.ts";

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
  [EXIT.failed, "the command failed, or the service refused the request"],
  [EXIT.usage, "the command line is invalid"],
  [EXIT.notFound, "the object does not exist (404)"],
  [EXIT.notAllowed, "the credential is missing, invalid or lacks permission (401, 403)"],
  [EXIT.conflict, "the state of the object does not allow the request (409, 410)"],
  [EXIT.unavailable, "the service is unavailable (no answer, 429, 502, 503, 504): retry later"],
];

/** A command that failed for a reason that the user can act on. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;
  /** The API's answer, if it is the reason. */
  readonly problem: Problem | undefined;

  constructor(message: string, { exitCode = EXIT.failed, problem, ...options }: CommandErrorOptions = {}) {
    super(message, options);
    this.exitCode = exitCode;
    this.problem = problem;
  }
}

export interface CommandErrorOptions extends ErrorOptions {
  readonly exitCode?: ExitCode;
  readonly problem?: Problem;
}

/** Creates the error for an invalid command line; exit code 2. */
export function misused(message: string): CommandError {
  return new CommandError(message, { exitCode: EXIT.usage });
}

/** Returns the exit code for an HTTP status. */
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

/** Returns the exit code for an error whose message is for people; undefined for an unexpected error. */
export function exitCodeOfError(error: unknown): ExitCode | undefined {
  if (error instanceof CommandError) {
    return error.exitCode;
  }
  if (error instanceof SignetApiError) {
    // RFC 6749 answers an invalid client with 401, or with 400 if the request had no credential.
    return error.code === "INVALID_CLIENT" ? EXIT.notAllowed : exitCodeOfStatus(error.status);
  }
  if (error instanceof SignetTransportError) {
    return EXIT.unavailable;
  }
  if (error instanceof CredentialStoreError) {
    return EXIT.notAllowed;
  }
  const isExpected =
    error instanceof ConfigError || error instanceof NoteError || error instanceof ComplianceProofError;
  return isExpected ? EXIT.failed : undefined;
}

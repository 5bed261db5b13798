import { SignetError } from "#domain/errors.ts";

/** Creates the error of a failed start: `detail` is one line for a terminal with the fix. */
export function startUpError(detail: string, cause?: unknown): SignetError {
  return new SignetError("UNAVAILABLE", { detail, cause });
}

/** Whether a system call failed with one of these codes, for instance `ENOENT`. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

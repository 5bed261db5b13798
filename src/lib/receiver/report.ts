/** Says what a receiver refuses and what fails in it: to the program, or on standard error where it does not listen. */

/** More kinds than there are; names of errors come from programs. */
const KINDS_MAX = 100;

/**
 * Passes on one refusal or failure. Never throws.
 *
 * @param refusal what the sender did wrong, as in `401 SIGNATURE_INVALID`; absent if the program is at fault
 * @param place where the program failed: two functions may throw errors of the same name
 */
export type Report = (error: unknown, refusal?: string, place?: string) => void;

/** Returns the same text for failures of one kind. Errors of the system have one name and a code. */
function kindOf(error: unknown, place = ""): string {
  const { code } = Object(error) as { readonly code?: unknown };
  return `500 ${place} ${error instanceof Error ? error.name : "?"} ${typeof code === "string" ? code : ""}`;
}

async function tell(onError: (error: unknown) => unknown, error: unknown): Promise<void> {
  try {
    await onError(error);
  } catch {
    // No one else to report to, and the answer stays the same.
  }
}

/**
 * Returns a function that calls `onError`. Without one it prints the first of each kind: a receiver that answers 500 in
 * silence would cost days.
 *
 * @param what is received, for instance "webhook"
 */
export function reporter(onError: ((error: unknown) => unknown) | undefined, what: string): Report {
  if (onError !== undefined) {
    return (error) => void tell(onError, error);
  }
  const printed = new Set<string>();
  return (error, refusal, place) => {
    const kind = refusal ?? kindOf(error, place);
    if (printed.has(kind) || printed.size >= KINDS_MAX) {
      return;
    }
    printed.add(kind);
    const more = "Others of this kind are not printed. Pass onError to see each.";
    if (refusal === undefined) {
      console.error(`signet: a ${what} failed in this receiver, which answered it with 5xx. ${more}`, error);
    } else {
      const reason = error instanceof Error ? error.message : String(error);
      console.error(`signet: a ${what} was refused with ${refusal}: ${reason}. ${more}`);
    }
  };
}

/** The demo's `fetch`: a first start on a busy machine waits until its processes hear revocations in time. */
import { readText } from "#lib/bounded-body.ts";
import type { Fetch } from "#lib/client/runtime.ts";

const AGAIN_MS = 1_000;
const PATIENCE_MS = 120_000;

export interface Patience {
  /** Prints one line when the wait begins. */
  readonly say: (line: string) => void;
  readonly wait: (ms: number) => Promise<unknown>;
  /** Returns a monotonic time, in milliseconds. */
  readonly monotonicMs: () => number;
}

/**
 * Repeats requests that are answered 503 `REVOCATION_STALE`, which precedes all work, for at most two minutes. Returns the
 * last answer.
 */
export function patientFetch(fetch: Fetch, { say, wait, monotonicMs }: Patience): Fetch {
  let said = false;
  return async (url, init) => {
    const deadline = monotonicMs() + PATIENCE_MS;
    for (;;) {
      const response = await fetch(url, init);
      if (response.status !== 503) {
        return response;
      }
      const text = await readText(response);
      if (!text.includes('"REVOCATION_STALE"') || monotonicMs() >= deadline) {
        const type = response.headers.get("content-type") ?? "application/problem+json";
        return new Response(text, { status: 503, headers: { "content-type": type } });
      }
      if (!said) {
        said = true;
        say("  This machine is busy: waiting until revocations arrive in time.");
      }
      await wait(AGAIN_MS);
    }
  };
}

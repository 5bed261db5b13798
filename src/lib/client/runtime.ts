/** Time, randomness, network and warnings as injectable dependencies. */

/** Unix milliseconds. */
export interface Clock {
  now(): number;
}

/** The part of `fetch` that this library uses; the global one fits. It must honour `redirect`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A non-fatal problem for an operator. */
export interface Warning {
  readonly code:
    | "REFRESH_FAILED"
    | "STORE_UNREADABLE"
    | "STORE_EXPOSED"
    | "SUCCESSOR_NOT_STORED"
    | "STREAM_INTERRUPTED"
    | "DELIVERIES_MISSED";
  readonly message: string;
  readonly cause?: unknown;
}

export type Warn = (warning: Warning) => void;

export interface Runtime {
  readonly fetch: Fetch;
  readonly clock: Clock;
  /** 0 ≤ x < 1, for jitter only. */
  readonly random: () => number;
  /** Waits; rejects with the signal's reason when aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly warn: Warn;
}

async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function emitWarning({ code, message, cause }: Warning): void {
  const reason = cause instanceof Error ? `: ${cause.message}` : "";
  process.emitWarning(message + reason, { type: "SignetWarning", code });
}

/** Fills missing members from the platform. */
export function runtimeWith(parts: Partial<Runtime>): Runtime {
  return {
    fetch: parts.fetch ?? fetch,
    clock: parts.clock ?? Date,
    random: parts.random ?? Math.random,
    sleep: parts.sleep ?? sleep,
    warn: parts.warn ?? emitWarning,
  };
}

/** Returns the promise, or rejects with the signal's reason if that comes first; the shared work is not cancelled. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) {
    return await promise;
  }
  if (signal.aborted) {
    // Nobody waits for it, so ignore its failure.
    promise.catch(() => undefined);
    throw signal.reason as Error;
  }
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop as () => void);
  }
}

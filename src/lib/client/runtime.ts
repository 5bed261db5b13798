/** Time, chance, the network and warnings, as arguments: whoever embeds this library may bring its own. */

/** Unix milliseconds. */
export interface Clock {
  now(): number;
}

/** The part of `fetch` that this library uses; the global one fits. It must not follow redirects when told so. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Something that an operator should know and that stopped nothing. */
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
  /** Waits; rejects with the signal's reason once that is aborted. */
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

function emitWarning({ code, message }: Warning): void {
  process.emitWarning(message, { type: "SignetWarning", code });
}

/** What is missing is taken from the platform. */
export function runtimeWith(parts: Partial<Runtime>): Runtime {
  return {
    fetch: parts.fetch ?? fetch,
    clock: parts.clock ?? Date,
    random: parts.random ?? Math.random,
    sleep: parts.sleep ?? sleep,
    warn: parts.warn ?? emitWarning,
  };
}

/** The promise, or the signal's reason if that comes first: what is shared with others is not cancelled by one of them. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) {
    return await promise;
  }
  if (signal.aborted) {
    // Nobody waits for it any more; that it fails as well is no news.
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

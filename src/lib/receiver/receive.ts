/** One webhook from raw bytes to an answer, whatever the framework. */
import { VerificationError } from "./errors.ts";
import type { HeaderSource } from "./headers.ts";
import { MemoryReplayStore, type ReplayStore } from "./replay-store.ts";
import { type VerifiedPayload, verify } from "./verify.ts";

/** A verified event. */
export interface WebhookEvent extends VerifiedPayload {
  /** The `type` of the body; null when it has none. */
  readonly type: string | null;
  /** The service says it itself, not a tenant that publishes: `"source":"service"` in the signed body. */
  readonly fromService: boolean;
}

export interface ReceiverOptions {
  /** The endpoint's secret, or its public key `whpk_…`; during a rotation the old and the new one. */
  readonly secrets: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  /**
   * Gets each event once. When it throws, the answer is 500 and the event comes again. Pings and grades are answered
   * without it.
   */
  readonly onEvent: (event: WebhookEvent) => unknown;
  /** Remembers ids; a {@link MemoryReplayStore} unless several processes share one. */
  readonly replayStore?: ReplayStore;
  /** How long ids are remembered, seconds; 864,000: the 72 hours of attempts and the week in which they can be replayed. */
  readonly rememberSeconds?: number;
  /** Bodies above it are a 413; 524,288 bytes. */
  readonly maxBodyBytes?: number;
  /** For the whole body, milliseconds; 10,000. */
  readonly bodyMs?: number;
  readonly toleranceSeconds?: number;
  readonly futureSeconds?: number;
  readonly headerBrand?: string;
  /**
   * Hears of what was refused (`VerificationError`) and of what `onEvent`, the store or `secrets` threw. What it throws
   * itself is dropped: the answer is the same.
   */
  readonly onError?: (error: unknown) => void;
  /** Unix milliseconds; `Date.now` unless said otherwise. */
  readonly now?: () => number;
}

/** What to answer. */
export interface WebhookAnswer {
  readonly status: 200 | 400 | 401 | 500;
  /** JSON. */
  readonly body: string;
}

export interface WebhookReceiver {
  /** Never rejects. */
  receive(rawBody: Uint8Array, headers: HeaderSource): Promise<WebhookAnswer>;
}

/** Sent by the service to grade a receiver (its documentation, Grades). */
const GRADE_TYPE = "signet.grade";
const REMEMBER_SECONDS = 864_000;

function answer(status: WebhookAnswer["status"], body: Readonly<Record<string, unknown>>): WebhookAnswer {
  return { status, body: JSON.stringify(body) };
}

function memberOf(payload: unknown, name: string): unknown {
  return typeof payload === "object" && payload !== null
    ? (payload as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

function refusal(error: unknown): WebhookAnswer {
  if (error instanceof VerificationError) {
    return answer(error.code === "HEADERS_MALFORMED" ? 400 : 401, { error: error.code });
  }
  return answer(500, { error: "FAILED" });
}

/** Tells `onError`, whose own failure must not change what is answered. */
export function tell(onError: ReceiverOptions["onError"], error: unknown): void {
  try {
    onError?.(error);
  } catch {
    // There is nobody else to tell.
  }
}

/** Verifies, drops what was there already, and hands the rest to `onEvent`. */
export function createReceiver(options: ReceiverOptions): WebhookReceiver {
  const { onEvent, secrets, now = Date.now, rememberSeconds = REMEMBER_SECONDS } = options;
  const { replayStore = new MemoryReplayStore({ now }) } = options;
  const limits = {
    ...(options.toleranceSeconds === undefined ? {} : { toleranceSeconds: options.toleranceSeconds }),
    ...(options.futureSeconds === undefined ? {} : { futureSeconds: options.futureSeconds }),
    ...(options.headerBrand === undefined ? {} : { headerBrand: options.headerBrand }),
  };

  const underWay = new Map<string, Promise<boolean>>();

  async function take(event: WebhookEvent): Promise<boolean> {
    const { id, type } = event;
    if (id !== null && (await replayStore.seen(id, now() + rememberSeconds * 1_000))) {
      return false;
    }
    try {
      if (type !== GRADE_TYPE || !event.fromService) {
        await onEvent(event);
      }
    } catch (error) {
      if (id !== null) {
        await replayStore.forget(id);
      }
      throw error;
    }
    return true;
  }

  /** False for what was there before. */
  async function once(event: WebhookEvent): Promise<boolean> {
    const { id } = event;
    if (id === null) {
      return await take(event);
    }
    const other = underWay.get(id);
    if (other !== undefined) {
      // The retry of a slow one: saying 200 before that has succeeded could lose the event.
      await other;
      return false;
    }
    const work = take(event).finally(() => underWay.delete(id));
    underWay.set(id, work);
    return await work;
  }

  async function process(rawBody: Uint8Array, headers: HeaderSource): Promise<WebhookAnswer> {
    const known = typeof secrets === "function" ? await secrets() : secrets;
    const verified = verify({ rawBody, headers, secrets: known, now: now(), ...limits });
    const named = memberOf(verified.payload, "type");
    const type = typeof named === "string" ? named : null;
    const fromService = memberOf(verified.payload, "source") === "service";
    if (type === "ping") {
      return answer(200, { challenge: memberOf(memberOf(verified.payload, "data"), "challenge") });
    }
    return answer(200, { processed: await once({ ...verified, type, fromService }) });
  }

  return {
    receive: async (rawBody, headers) => {
      try {
        return await process(rawBody, headers);
      } catch (error) {
        tell(options.onError, error);
        return refusal(error);
      }
    },
  };
}

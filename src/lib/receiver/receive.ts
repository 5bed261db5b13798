/** Handles one webhook from raw bytes to an answer, for any framework. */
import { VerificationError } from "./errors.ts";
import type { HeaderSource } from "./headers.ts";
import { MemoryReplayStore, type ReplayStore } from "./replay-store.ts";
import { type VerifiedPayload, verifyParsed } from "./verify.ts";

/** A verified event. */
export interface WebhookEvent extends VerifiedPayload {
  /** The `type` of the body; null without one. */
  readonly type: string | null;
  /** Whether the service sent it, not a publishing tenant: `"source":"service"` in the signed body. */
  readonly fromService: boolean;
}

export interface ReceiverOptions {
  /** The endpoint's secret, or its public key `whpk_…`; during a rotation the old and the new one. */
  readonly secrets: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  /**
   * Called once per event. If it throws, the answer is 500 and the event is sent again. Not called for pings
   * and grades.
   */
  readonly onEvent: (event: WebhookEvent) => unknown;
  /** Remembers ids; a {@link MemoryReplayStore} by default. Several processes need a shared one. */
  readonly replayStore?: ReplayStore;
  /** How long ids are remembered, in seconds; 864,000: the 72 hours of attempts and the week of replays. */
  readonly rememberSeconds?: number;
  /** Maximum body size, in bytes, beyond which the answer is 413; 524,288. */
  readonly maxBodyBytes?: number;
  /** Timeout of the whole body, in milliseconds; 10,000. */
  readonly bodyMs?: number;
  readonly toleranceSeconds?: number;
  readonly futureSeconds?: number;
  readonly headerBrand?: string;
  /**
   * Receives rejections (`VerificationError`) and errors of `onEvent`, the store or `secrets`. Its own errors are
   * ignored: the answer is the same.
   */
  readonly onError?: (error: unknown) => void;
  /** Unix milliseconds; `Date.now` by default. */
  readonly now?: () => number;
}

/** The answer. */
export interface WebhookAnswer {
  readonly status: 200 | 400 | 401 | 500;
  /** JSON. */
  readonly body: string;
}

export interface WebhookReceiver {
  /** Never rejects. */
  receive(rawBody: Uint8Array, headers: HeaderSource): Promise<WebhookAnswer>;
}

/** Event type by which the service grades a receiver (docs/grader.md). */
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
    return answer(error.code.endsWith("_MALFORMED") ? 400 : 401, { error: error.code });
  }
  return answer(500, { error: "FAILED" });
}

/** Calls `onError`, whose own failure must not change the answer. */
export function tell(onError: ReceiverOptions["onError"], error: unknown): void {
  try {
    onError?.(error);
  } catch {
    // No one else to report to.
  }
}

/** Verifies a webhook, drops duplicates, and passes new events to `onEvent`. */
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

  /** False for duplicates. */
  async function once(event: WebhookEvent): Promise<boolean> {
    const { id } = event;
    if (id === null) {
      return await take(event);
    }
    const other = underWay.get(id);
    if (other !== undefined) {
      // A retry of one in progress: answering 200 before that has succeeded could lose the event.
      await other;
      return false;
    }
    const work = take(event).finally(() => underWay.delete(id));
    underWay.set(id, work);
    return await work;
  }

  async function process(rawBody: Uint8Array, headers: HeaderSource): Promise<WebhookAnswer> {
    const known = typeof secrets === "function" ? await secrets() : secrets;
    const verified = verifyParsed({ rawBody, headers, secrets: known, now: now(), ...limits });
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

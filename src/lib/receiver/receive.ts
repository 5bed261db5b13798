/** Handles one webhook from raw bytes to an answer, for any framework. */
import { VerificationError } from "./errors.ts";
import type { HeaderSource } from "./headers.ts";
import { checkFunctions, checkNumbers } from "../options.ts";
import { MemoryReplayStore, type ReplayStore } from "./replay-store.ts";
import { reporter } from "./report.ts";
import { checkUnread } from "./respond.ts";
import { readSecrets } from "./secret.ts";
import { type VerifiedPayload, verifyParsed } from "./verify.ts";

/** A verified event. */
export interface WebhookEvent extends VerifiedPayload {
  /** The `type` of the body; null without one. */
  readonly type: string | null;
  /** Whether the service sent it, not a publishing tenant: `"source":"service"` in the signed body. */
  readonly fromService: boolean;
}

type Secrets = string | readonly string[];

export interface ReceiverOptions {
  /**
   * The endpoint's secret, or its public key `whpk_…`; during a rotation the old and the new one, as a list. White space
   * around them, such as the newline at the end of a file, is ignored. A function is called for each request.
   */
  readonly secrets: Secrets | (() => Secrets | Promise<Secrets>);
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
   * Receives refusals (`VerificationError`) and errors of `onEvent`, the store or `secrets`. Its own errors are
   * ignored: the answer is the same. Without it, the first of each kind is printed on standard error.
   */
  readonly onError?: (error: unknown) => unknown;
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

function refusal({ code }: VerificationError): WebhookAnswer {
  return answer(code.endsWith("_MALFORMED") ? 400 : 401, { error: code });
}

/** @throws TypeError that names the option */
function checkOptions(options: ReceiverOptions): void {
  const given = options as unknown as Readonly<Record<string, unknown>>;
  checkFunctions(given, ["onEvent"], ["onError", "now"]);
  checkNumbers(given, ["rememberSeconds", "maxBodyBytes", "bodyMs", "toleranceSeconds", "futureSeconds"]);
  const { replayStore, headerBrand = "Service" } = options;
  if (replayStore !== undefined) {
    const store = replayStore as unknown as Readonly<Record<string, unknown>>;
    checkFunctions(store, ["seen", "forget"], [], "replayStore.");
  }
  if (!/^[A-Za-z0-9-]+$/.test(headerBrand)) {
    throw new TypeError("headerBrand is not a part of a header's name");
  }
}

interface Processing {
  readonly onEvent: ReceiverOptions["onEvent"];
  readonly replayStore: ReplayStore;
  /** Unix milliseconds until which an id is remembered. */
  readonly until: () => number;
}

/** Returns a function that processes each event once. It resolves with false for duplicates. */
function eventsOnce({ onEvent, replayStore, until }: Processing): (event: WebhookEvent) => Promise<boolean> {
  const underWay = new Map<string, Promise<boolean>>();

  async function take(event: WebhookEvent): Promise<boolean> {
    const { id, type } = event;
    if (id !== null && (await replayStore.seen(id, until()))) {
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

  return async (event) => {
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
  };
}

/**
 * Verifies a webhook, drops duplicates, and passes new events to `onEvent`.
 *
 * @throws TypeError for an option that is missing or wrong: a receiver without its secret does not start
 */
export function createReceiver(options: ReceiverOptions): WebhookReceiver {
  checkOptions(options);
  const { onEvent, secrets: given, now = Date.now, rememberSeconds = REMEMBER_SECONDS } = options;
  const secrets = typeof given === "function" ? given : readSecrets(given);
  const report = reporter(options.onError, "webhook");
  const { replayStore = new MemoryReplayStore({ now }) } = options;
  const limits = {
    ...(options.toleranceSeconds === undefined ? {} : { toleranceSeconds: options.toleranceSeconds }),
    ...(options.futureSeconds === undefined ? {} : { futureSeconds: options.futureSeconds }),
    ...(options.headerBrand === undefined ? {} : { headerBrand: options.headerBrand }),
  };

  const once = eventsOnce({ onEvent, replayStore, until: () => now() + rememberSeconds * 1_000 });

  /** Returns a refusal apart from failures: `onEvent` may throw a VerificationError of its own, too. */
  async function check(
    rawBody: Uint8Array,
    headers: HeaderSource,
  ): Promise<VerifiedPayload | VerificationError> {
    checkUnread(rawBody, headers);
    const known = typeof secrets === "function" ? await secrets() : secrets;
    try {
      return verifyParsed({ rawBody, headers, secrets: known, now: now(), ...limits });
    } catch (error) {
      if (error instanceof VerificationError) {
        return error;
      }
      throw error;
    }
  }

  async function process(verified: VerifiedPayload): Promise<WebhookAnswer> {
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
      let place = "check";
      try {
        const checked = await check(rawBody, headers);
        if (!(checked instanceof VerificationError)) {
          place = "process";
          return await process(checked);
        }
        const refused = refusal(checked);
        report(checked, `${refused.status} ${checked.code}`);
        return refused;
      } catch (error) {
        report(error, undefined, place);
        return answer(500, { error: "FAILED" });
      }
    },
  };
}

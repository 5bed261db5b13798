/**
 * POSTs that may be sent again with their Idempotency-Key (wire.md, Events), also those whose answer holds a secret. The
 * answer is kept for 24 hours, in the transaction that made it, under a key that takes the Idempotency-Key to make: who
 * holds the database and every key of ours cannot read it, who sends the request again can.
 */
import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import {
  type EnvelopeKey,
  EnvelopeError,
  envelopeKeyId,
  openEnvelope,
  sealEnvelope,
} from "../crypto/envelope.ts";
import type { Pepper } from "../crypto/pepper.ts";
import type { Queryable } from "../database/pool.ts";
import {
  type AnswerPlace,
  claimAnswer,
  findAnswer,
  freeAnswer,
  keepAnswer,
} from "../database/repositories/idempotent-answers.ts";
import { IDEMPOTENCY_MS } from "../domain/idempotency.ts";
import type { Clock } from "../domain/clock.ts";
import type { RandomBytes } from "../domain/ids.ts";
import { SignetError } from "../domain/errors.ts";

export interface RepeatableServices {
  readonly pepper: Pepper;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/** A request with its Idempotency-Key. */
export interface RepeatableRequest {
  /** Tenant or operator: keys of others are other keys. */
  readonly ownerId: string;
  /** Of a tenant, the principal: keys of others are other keys too. */
  readonly author?: string | undefined;
  /** Method and path template. */
  readonly route: string;
  readonly key: string;
  /** What makes two requests the same; it can be written as JSON. */
  readonly content: unknown;
}

/** What was answered, now or before. */
export interface Answered<Answer> {
  readonly answer: Answer;
  /** The answer to an earlier request with the same Idempotency-Key. */
  readonly replayed: boolean;
}

/** The request as far as its repetition goes; undefined when it came without a key. */
export function repeatableRequest(
  { headers, method, routeOptions, params, body }: FastifyRequest,
  ownerId: string,
  author?: string,
): RepeatableRequest | undefined {
  const { "idempotency-key": key } = headers;
  if (method !== "POST" || typeof key !== "string") {
    return undefined;
  }
  return {
    ownerId,
    author,
    route: `${method} ${routeOptions.url ?? ""}`,
    key,
    content: [params ?? null, body ?? null, author ?? null],
  };
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** The digest under which a key is kept; version 0.2 makes it of the key alone, for all principals of a tenant. */
function keyDigest(key: string, author?: string): Buffer {
  return sha256(author === undefined ? key : JSON.stringify([author, key]));
}

/** What an envelope is bound to besides its key: the request and what was asked for. */
function aadOf({ ownerId, route, keyDigest }: AnswerPlace): string {
  return `idempotent_answers|${ownerId}|${route}|${keyDigest.toString("hex")}`;
}

/** The envelope names the pepper, which may be an earlier one by the time the envelope is opened. */
function answerKey(pepper: Pepper, key: string, aad: string, id = pepper.id): EnvelopeKey {
  const derived = pepper.deriveKey(key, aad, id);
  if (derived === undefined) {
    throw new EnvelopeError("sealed under a pepper that is not known here");
  }
  return { id, key: derived };
}

function reopened<Answer>(pepper: Pepper, key: string, aad: string, envelope: string): Answer {
  try {
    const sealedWith = answerKey(pepper, key, aad, envelopeKeyId(envelope));
    return JSON.parse(openEnvelope(sealedWith, aad, envelope).toString("utf8")) as Answer;
  } catch (error) {
    if (error instanceof EnvelopeError) {
      throw new SignetError("CONFLICT", {
        detail: "This request was carried out before, and its answer can no longer be read.",
        cause: error,
      });
    }
    throw error;
  }
}

/** How long a key may be taken without an answer: longer than any request takes. */
const ABANDONED_MS = 60_000;

/** A request whose key is taken, with what it takes to keep its answer. */
interface Claimed {
  readonly place: AnswerPlace;
  readonly key: string;
  readonly aad: string;
  readonly takenAt: Date;
}

type Claim =
  | { readonly claimed: Claimed }
  | { readonly envelope: string; readonly key: string; readonly aad: string };

/** @throws SignetError `IDEMPOTENCY_KEY_REUSED`; `CONFLICT` while the first request is still carried out */
async function claim(
  db: Queryable,
  { ownerId, author, route, key, content }: RepeatableRequest,
  nowMs: number,
): Promise<Claim> {
  const bodyHash = sha256(JSON.stringify(content));
  const takenAt = new Date(nowMs);
  const ages = {
    now: takenAt,
    forgetBefore: new Date(nowMs - IDEMPOTENCY_MS),
    abandonedBefore: new Date(nowMs - ABANDONED_MS),
  };
  // Processes of version 0.2 run beside this one during an upgrade: what they have taken counts as it does there.
  const former = { ownerId, route, keyDigest: keyDigest(key) };
  const formerAnswer = author === undefined ? undefined : await findAnswer(db, former, ages);
  const place = formerAnswer === undefined ? { ownerId, route, keyDigest: keyDigest(key, author) } : former;
  const kept = formerAnswer ?? (await claimAnswer(db, { ...place, bodyHash, ...ages }));
  const aad = aadOf(place);
  if (kept === undefined) {
    return { claimed: { place, key, aad, takenAt } };
  }
  if (!kept.bodyHash.equals(bodyHash)) {
    throw new SignetError("IDEMPOTENCY_KEY_REUSED", {
      detail: "This Idempotency-Key was used with a different request in the past 24 hours.",
    });
  }
  if (kept.answer === null) {
    throw new SignetError("CONFLICT", {
      detail: "The first request with this Idempotency-Key is still being carried out.",
    });
  }
  return { envelope: kept.answer, key, aad };
}

async function keep(
  db: Queryable,
  { place, key, aad }: Claimed,
  answer: unknown,
  { pepper, randomBytes }: RepeatableServices,
): Promise<void> {
  const sealed = sealEnvelope(answerKey(pepper, key, aad), aad, JSON.stringify(answer), randomBytes);
  await keepAnswer(db, place, sealed);
}

/**
 * Does the work of a request, or answers as before when its key has been used. What the work rejects with is not kept.
 *
 * @param db the transaction of the work: the key is taken, and the answer kept, if and only if it commits
 * @throws SignetError `IDEMPOTENCY_KEY_REUSED` when the key stands for another request; `CONFLICT` when the answer was
 *   sealed under a pepper that is gone
 */
export async function answerOnce<Answer>(
  db: Queryable,
  request: RepeatableRequest | undefined,
  services: RepeatableServices,
  work: () => Promise<Answer>,
): Promise<Answered<Answer>> {
  if (request === undefined) {
    return { answer: await work(), replayed: false };
  }
  const taken = await claim(db, request, services.clock.now());
  if ("envelope" in taken) {
    return { answer: reopened(services.pepper, taken.key, taken.aad, taken.envelope), replayed: true };
  }
  const answer = await work();
  await keep(db, taken.claimed, answer, services);
  return { answer, replayed: false };
}

/** Runs work in a transaction of the request's owner. */
export type OwnersTransaction = <T>(work: (db: Queryable) => Promise<T>) => Promise<T>;

/** The end of work that was begun with {@link beginOnce}. */
export interface BegunWork<Answer> {
  readonly keep: (answer: Answer) => Promise<void>;
  /** The work has failed: the key is free again. */
  readonly free: () => Promise<void>;
}

/**
 * The same for work that has transactions of its own, or none: the key is taken before it and the answer kept after it.
 * A process that dies in between leaves the key taken for a minute; then the work is done again.
 *
 * @throws SignetError as `answerOnce`, and `CONFLICT` while the first request is carried out
 */
export async function beginOnce<Answer>(
  transact: OwnersTransaction,
  request: RepeatableRequest,
  services: RepeatableServices,
): Promise<{ readonly answer: Answer } | { readonly begun: BegunWork<Answer> }> {
  const taken = await transact(async (db) => await claim(db, request, services.clock.now()));
  if ("envelope" in taken) {
    return { answer: reopened<Answer>(services.pepper, taken.key, taken.aad, taken.envelope) };
  }
  const { claimed } = taken;
  return {
    begun: {
      keep: async (answer) => await transact(async (db) => await keep(db, claimed, answer, services)),
      free: async () => await transact(async (db) => await freeAnswer(db, claimed.place, claimed.takenAt)),
    },
  };
}

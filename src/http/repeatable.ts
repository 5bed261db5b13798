/**
 * POSTs that may be repeated with their Idempotency-Key (contract 6.2), even if the response contains a secret. The
 * response is stored for 24 hours, in the transaction of the work. Its encryption key is derived from the
 * Idempotency-Key, so only a repeated request can read it. The database and all of the service's keys do not suffice.
 */
import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import {
  type EnvelopeKey,
  EnvelopeError,
  envelopeKeyId,
  openEnvelope,
  sealEnvelope,
} from "#crypto/envelope.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { Queryable } from "#database/pool.ts";
import {
  type AnswerPlace,
  claimAnswer,
  findAnswer,
  freeAnswer,
  keepAnswer,
} from "#database/repositories/idempotent-answers.ts";
import { IDEMPOTENCY_HOURS, IDEMPOTENCY_MS } from "#domain/idempotency.ts";
import type { Clock } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { SignetError } from "#domain/errors.ts";

export interface RepeatableServices {
  readonly pepper: Pepper;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/** A request with its Idempotency-Key. */
export interface RepeatableRequest {
  /** Tenant or operator. Different owners have separate keys. */
  readonly ownerId: string;
  /** The tenant's principal. Different principals have separate keys. */
  readonly author?: string | undefined;
  /** Method and path template. */
  readonly route: string;
  readonly key: string;
  /** The parts that make two requests equal, as a JSON value. */
  readonly content: unknown;
}

/** A new or stored response. */
export interface Answered<Answer> {
  readonly answer: Answer;
  /** Whether the response belongs to an earlier request with the same Idempotency-Key. */
  readonly replayed: boolean;
}

/** Returns the parts of a request that identify its repetition; undefined if it has no key. */
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

/** Returns the stored digest of a key. Version 0.2 hashes the key alone, for all principals of a tenant. */
function keyDigest(key: string, author?: string): Buffer {
  return sha256(author === undefined ? key : JSON.stringify([author, key]));
}

/** Returns the additional data of an envelope, which binds it to the request. */
function aadOf({ ownerId, route, keyDigest }: AnswerPlace): string {
  return `idempotent_answers|${ownerId}|${route}|${keyDigest.toString("hex")}`;
}

/** Derives the key of an envelope. The envelope names its pepper, which may be an earlier one. */
function answerKey(pepper: Pepper, key: string, aad: string, id = pepper.id): EnvelopeKey {
  const derived = pepper.deriveKey(key, aad, id);
  if (derived === undefined) {
    throw new EnvelopeError("sealed under an unknown pepper");
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
        detail: "This request was already carried out, and its response can no longer be read.",
        cause: error,
      });
    }
    throw error;
  }
}

/** How long a key may be claimed without a response, in milliseconds: longer than any request takes. */
const ABANDONED_MS = 60_000;

/** A claimed key, with the data to store the response. */
interface Claimed {
  readonly place: AnswerPlace;
  readonly key: string;
  readonly aad: string;
  readonly takenAt: Date;
}

type Claim =
  | { readonly claimed: Claimed }
  | { readonly envelope: string; readonly key: string; readonly aad: string };

/** @throws SignetError `IDEMPOTENCY_KEY_REUSED`; `CONFLICT` while the first request is still running */
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
  // During an upgrade, processes of version 0.2 run in parallel, so respect their claims.
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
      detail: `This Idempotency-Key was used with a different request in the past ${IDEMPOTENCY_HOURS} hours.`,
    });
  }
  if (kept.answer === null) {
    throw new SignetError("CONFLICT", {
      detail: "The first request with this Idempotency-Key is still running.",
    });
  }
  return { envelope: kept.answer, key, aad };
}

async function keep(
  db: Queryable,
  { place, key, aad, takenAt }: Claimed,
  answer: unknown,
  { pepper, randomBytes }: RepeatableServices,
): Promise<void> {
  const sealed = sealEnvelope(answerKey(pepper, key, aad), aad, JSON.stringify(answer), randomBytes);
  await keepAnswer(db, place, { takenAt, answer: sealed });
}

/**
 * Runs the work of a request, or returns the stored response if its key has been used. Errors are not stored.
 *
 * @param db transaction of the work; the claim and the response are stored only if it commits
 * @throws SignetError `IDEMPOTENCY_KEY_REUSED` if the key belongs to another request; `CONFLICT` if the response was
 *   sealed under a removed pepper
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

/** Ends work that {@link beginOnce} has begun. */
export interface BegunWork<Answer> {
  readonly keep: (answer: Answer) => Promise<void>;
  /** Frees the key after a failure. */
  readonly free: () => Promise<void>;
}

/**
 * Like {@link answerOnce}, for work with its own transactions or none: claims the key before the work and stores the
 * response after it. If the process dies in between, the key stays claimed for a minute; then the work may run again.
 *
 * @throws SignetError as `answerOnce`, and `CONFLICT` while the first request is running
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

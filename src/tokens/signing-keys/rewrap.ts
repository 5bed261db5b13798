/**
 * Wraps every wrapped key again under the newest key-encryption key, in batches, while the service runs. The wrapped
 * keys themselves do not change.
 */
import { appendEntry } from "#compliance/append-entry.ts";
import { EnvelopeError } from "#crypto/envelope.ts";
import { dataKeyAad } from "#crypto/keyring.ts";
import {
  listWrapped,
  replaceWrapped,
  WRAPPED_KINDS,
  type WrappedKey,
  type WrappedKind,
} from "#database/repositories/wrapped-keys.ts";
import { transaction } from "#database/transaction.ts";
import { signingKeyAad } from "./signing-key.ts";
import type { Author, SigningKeyServices } from "./rotate.ts";

const BATCH = 100;

const PLACES: Readonly<Record<WrappedKind, (id: string) => string>> = {
  tenants: dataKeyAad,
  signing_keys: signingKeyAad,
};

/** Position from which to continue: after this id of this kind. */
export interface RewrapPosition {
  readonly kind: WrappedKind;
  readonly after: string;
}

export interface RewrapResult {
  /** The current key-encryption key. */
  readonly kekId: string;
  readonly rewrapped: number;
  /** Ids of keys wrapped by a key that this process does not have. */
  readonly unreadable: readonly string[];
  /** Undefined when everything is done. */
  readonly next: RewrapPosition | undefined;
}

type RewrapServices = Pick<SigningKeyServices, "pool" | "keyring" | "clock" | "randomBytes">;

interface Rewrapped extends WrappedKey {
  /** Undefined if the old key is unknown. */
  readonly to: string | undefined;
}

async function wrapAgain(
  key: WrappedKey,
  kind: WrappedKind,
  { keyring }: RewrapServices,
): Promise<Rewrapped> {
  try {
    return { ...key, to: await keyring.rewrap(PLACES[kind](key.id), key.envelope) };
  } catch (error) {
    if (error instanceof EnvelopeError) {
      return { ...key, to: undefined };
    }
    throw error;
  }
}

function positionAfter(kind: WrappedKind, batch: readonly WrappedKey[]): RewrapPosition | undefined {
  const last = batch.at(-1);
  if (batch.length === BATCH && last !== undefined) {
    return { kind, after: last.id };
  }
  const following = WRAPPED_KINDS[WRAPPED_KINDS.indexOf(kind) + 1];
  return following === undefined ? undefined : { kind: following, after: "" };
}

/** Wraps one batch again, starting at a position. It may be interrupted at any point, and run concurrently. */
export async function rewrapKeys(
  services: RewrapServices,
  author: Author,
  position: RewrapPosition = { kind: WRAPPED_KINDS[0], after: "" },
): Promise<RewrapResult> {
  const { kind, after } = position;
  const kekId = await services.keyring.kekId();
  const batch = await listWrapped(services.pool, kind, { kekId, after, limit: BATCH });
  const wrapped: Rewrapped[] = [];
  // One after the other, because key services have rate limits and nothing waits for this.
  for (const key of batch) {
    wrapped.push(await wrapAgain(key, kind, services));
  }
  const rewrapped = await transaction(services.pool, async (db) => {
    let count = 0;
    for (const { id, envelope, to } of wrapped) {
      if (to !== undefined && (await replaceWrapped(db, kind, { id, from: envelope, to }))) {
        count += 1;
      }
    }
    if (count > 0) {
      const details = { kek_id: kekId, kind, count };
      await appendEntry(
        db,
        { ...author, type: "key.rewrapped", tenant: null, target: null, details },
        services,
      );
    }
    return count;
  });
  const unreadable = wrapped.filter(({ to }) => to === undefined).map(({ id }) => id);
  return { kekId, rewrapped, unreadable, next: positionAfter(kind, batch) };
}

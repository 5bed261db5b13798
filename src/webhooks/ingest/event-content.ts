/** Seals and opens the `data` of events and the responses of receivers (decision 14). */
import type { KeyObject } from "node:crypto";
import {
  contentKey,
  CONTENT_SALT_BYTES,
  openBeside,
  openContent,
  openContentBytes,
  sealBeside,
  sealContent,
} from "#crypto/content.ts";
import { envelopeAad } from "#crypto/envelope.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import { findDataKey } from "#database/repositories/data-keys.ts";
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import type { RandomBytes } from "#domain/ids.ts";

/** Random bytes stored with a response. */
const IV_BYTES = 12;

function contentPlace(tenantId: string, eventId: string): string {
  return envelopeAad("events", tenantId, eventId, 1);
}

/** The attempt whose response is kept. */
export interface AnswerPlace {
  readonly tenantId: string;
  readonly deliveryId: string;
  readonly cycle: number;
  readonly attempt: number;
}

function answerPlace({ tenantId, deliveryId, cycle, attempt }: AnswerPlace): string {
  return envelopeAad("attempts", tenantId, `${deliveryId}/${cycle}`, attempt);
}

/** Seals the contents of new events. The random bytes of a whole commit are drawn at once. */
export function sealNewContents(
  events: readonly { readonly id: string; readonly tenantId: string; readonly data: string }[],
  rootOf: (tenantId: string) => KeyObject,
  randomBytes: RandomBytes,
): Buffer[] {
  const salts = randomBytes(CONTENT_SALT_BYTES * events.length);
  return events.map(({ id, tenantId, data }, index) => {
    const salt = salts.subarray(CONTENT_SALT_BYTES * index, CONTENT_SALT_BYTES * (index + 1));
    return sealContent(rootOf(tenantId), contentPlace(tenantId, id), salt, data);
  });
}

/**
 * Returns the root of a tenant's content keys; undefined once the tenant is erased. `db` must see the tenant's row.
 */
export async function findContentRoot(
  db: Queryable,
  keyring: Pick<Keyring, "contentRoot">,
  tenantId: string,
): Promise<KeyObject | undefined> {
  const wrapped = await findDataKey(db, tenantId);
  return wrapped === "" ? undefined : await keyring.contentRoot(wrapped, tenantId);
}

/** Opens the `data` of an event as JSON text. Throws EnvelopeError. */
export function openEventContent(root: KeyObject, tenantId: string, id: string, content: Buffer): string {
  return openContent(contentKey(root, content), contentPlace(tenantId, id), content);
}

/** Opens a receiver's response. `head` is the content of the event, or its beginning. */
export function openAnswer(root: KeyObject, head: Buffer, place: AnswerPlace, sealed: Buffer): string {
  return openBeside(contentKey(root, head), answerPlace(place), sealed);
}

/** Decrypted content of a delivery while it is sent. */
export interface OpenDelivery {
  /** Raw JSON text of `data`, or its bytes. */
  readonly dataJson: string | Buffer;
  /** Returns the response to an attempt in the form in which it is stored. */
  readonly keep: (attempt: number, answer: string) => Buffer | string;
}

/**
 * Creates the function that opens the content of deliveries and seals the responses. It rejects with EnvelopeError.
 */
export function createDeliveryOpener(
  keyring: Pick<Keyring, "contentRoot">,
  randomBytes: RandomBytes,
): (delivery: LoadedDelivery) => Promise<OpenDelivery> {
  return async (delivery) => {
    const { tenant_id: tenantId, delivery_id: deliveryId, cycle, content } = delivery;
    if (content === null) {
      return { dataJson: delivery.data ?? "null", keep: (_attempt, answer) => answer };
    }
    const root = await keyring.contentRoot(delivery.data_key, tenantId);
    const key = contentKey(root, content);
    return {
      dataJson: openContentBytes(key, contentPlace(tenantId, delivery.event_id), content),
      keep: (attempt, answer) => {
        const place = answerPlace({ tenantId, deliveryId, cycle, attempt });
        return sealBeside(key, place, randomBytes(IV_BYTES), answer);
      },
    };
  };
}

/** Large contents of events, which are loaded separately from their deliveries. */
import { idDay } from "#domain/ids.ts";
import { copyOut } from "#database/copy-out.ts";
import type { Pool } from "#database/pool.ts";

/** An event whose content is requested. */
export interface ContentKey {
  readonly eventId: string;
  /** Size of its sealed content, in bytes. */
  readonly bytes: number;
}

const EVENT_ID = /^evt_[0-9a-z]+$/;

/**
 * Loads the sealed contents of events, in the order of the keys; undefined if a content is gone. It uses COPY, because
 * the driver would convert every byte of a row into two hexadecimal digits and back.
 */
export async function loadContents(pool: Pool, keys: readonly ContentKey[]): Promise<(Buffer | undefined)[]> {
  const wanted = keys.map(({ eventId }) => {
    if (!EVENT_ID.test(eventId)) {
      throw new TypeError("not an event id");
    }
    return `('${idDay(eventId)}'::date, '${eventId}')`;
  });
  const rows = await copyOut(
    pool,
    `SELECT id, content FROM events WHERE (day, id) IN (${wanted.join(", ")}) AND content IS NOT NULL`,
  );
  const contents = new Map<string, Buffer>();
  let at = 0;
  const field = (): Buffer => {
    const start = at + 4;
    at = start + rows.readInt32BE(at);
    return rows.subarray(start, at);
  };
  while (rows.readInt16BE(at) > 0) {
    at += 2;
    const id = field().toString("latin1");
    // Copied, so that one content does not keep the whole answer in memory.
    contents.set(id, Buffer.from(field()));
  }
  return keys.map(({ eventId }) => contents.get(eventId));
}

/** Finds the events that an endpoint has missed. */
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import { findEndpoint, type Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import { findMissedEvents, type MissedEvent } from "#database/repositories/webhooks/missing-deliveries.ts";
import { parseExactJson } from "#domain/decimal.ts";
import { findContentRoot, openEventContent } from "../ingest/event-content.ts";
import { readFilter } from "../ingest/event-rules.ts";
import { Slices } from "#runtime/slices.ts";
import { found, SignetError } from "#domain/errors.ts";

/** Events read at a time, and decrypted at a time if there is a filter. */
const CHUNK = 2_000;
const CHUNK_WITH_CONTENT = 100;
/** Maximum number of events that one request tries a filter on, as it decrypts their contents. */
const FILTERED_MAX = 10_000;

export interface MissingSelection {
  readonly endpointId: string;
  readonly since: Date;
  /** Undefined for now. */
  readonly until: Date | undefined;
}

export interface MissingSearch {
  readonly tenantId: string;
  readonly selection: MissingSelection;
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly now: Date;
}

async function requireActive(db: Queryable, tenantId: string, id: string): Promise<Endpoint> {
  const endpoint = found(await findEndpoint(db, tenantId, id), "endpoint");
  if (endpoint.state !== "ACTIVE") {
    throw new SignetError("INVALID_STATE", {
      detail: `The endpoint is ${endpoint.state}: only ACTIVE endpoints can receive missed events.`,
    });
  }
  return endpoint;
}

const slices = new Slices();

/** Returns the events that pass the endpoint's filter. */
async function passing(
  db: Queryable,
  { tenantId, keyring }: MissingSearch,
  filter: string,
  events: readonly MissedEvent[],
): Promise<MissedEvent[]> {
  const root = await findContentRoot(db, keyring, tenantId);
  const takes = readFilter(filter);
  const passed: MissedEvent[] = [];
  for (const event of events) {
    const { id, type, data, content } = event;
    const isTaken = await slices.run(tenantId, () => {
      const text =
        content === null || root === undefined ? data : openEventContent(root, tenantId, id, content);
      return text !== null && takes({ type, data: parseExactJson(text) });
    });
    if (isTaken) {
      passed.push(event);
    }
  }
  return passed;
}

/**
 * Yields the ids of the events that the endpoint would have got, by type and filter, in chunks, oldest first.
 *
 * @param db a transaction of the tenant
 * @throws SignetError NOT_FOUND; INVALID_STATE if the endpoint is not ACTIVE; LIMIT_EXCEEDED if its filter would have
 * to be tried on too many events
 */
export async function* findMissing(db: Queryable, search: MissingSearch): AsyncGenerator<string[]> {
  const { tenantId, selection, now } = search;
  const { filter, event_types: eventTypes } = await requireActive(db, tenantId, selection.endpointId);
  const limit = filter === null ? CHUNK : CHUNK_WITH_CONTENT;
  const query = {
    tenantId,
    endpointId: selection.endpointId,
    eventTypes,
    since: selection.since,
    until: selection.until ?? now,
    limit,
  };
  let after = "";
  let tried = 0;
  for (;;) {
    const events = await findMissedEvents(db, query, { after, withContent: filter !== null });
    tried += events.length;
    if (filter !== null && tried > FILTERED_MAX) {
      throw new SignetError("LIMIT_EXCEEDED", {
        detail: `The endpoint's filter can be applied to at most ${FILTERED_MAX} events at once. Choose a shorter time span.`,
      });
    }
    const taken = filter === null ? events : await passing(db, search, filter, events);
    yield taken.map(({ id }) => id);
    const last = events.at(-1);
    if (events.length < limit || last === undefined) {
      return;
    }
    after = last.id;
  }
}

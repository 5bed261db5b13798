/**
 * What the processes of an older release do with a database: they publish, deliver and read, in statements that need no
 * later schema. Beside them, someone keeps a transaction open, as a report or a backup does.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { DAY_MS, HOUR_MS, newId, utcDay } from "#domain/ids.ts";
import { isContention } from "#database/errors.ts";

const MINUTE_MS = 60_000;
/** Hours before now in which the stored deliveries were accepted. */
const HOURS = 48;
const TYPE = "order.paid";
/** How long the transaction stays open, and the time between two. Longer than anyone may wait for a migration. */
const OPEN_MS = 1_500;
const BETWEEN_MS = 3_000;
const CONTENT = Buffer.alloc(200, 7);

const zeros = (size: number): Uint8Array => new Uint8Array(size);

async function connect(url: string, role?: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  // A failed test drops the database.
  client.on("error", () => undefined);
  await client.connect();
  await client.query(`SET search_path = public${role === undefined ? "" : `; SET ROLE ${role}`}`);
  return client;
}

interface Place {
  readonly tenant: string;
  readonly endpoint: string;
}

async function places(client: Client): Promise<Place[]> {
  const { rows } = await client.query<Place>(
    "SELECT tenant_id AS tenant, id AS endpoint FROM endpoints WHERE state = 'ACTIVE' ORDER BY id",
  );
  return rows;
}

/** Stores deliveries with their events, in all states, and returns their number: `count` or a few more. */
export async function storeDeliveries(url: string, count: number): Promise<number> {
  const client = await connect(url);
  const nowMs = Date.now();
  const minutes = Array.from({ length: HOURS * 60 }, (_, index) => nowMs - HOUR_MS - index * MINUTE_MS);
  const perMinute = Math.ceil(count / minutes.length);
  const prefix = (noun: "event" | "delivery", ms: number): string => newId(noun, ms, zeros).slice(0, -14);
  const targets = await places(client);
  await client.query("SELECT ensure_day_partitions($1::date, 4)", [utcDay(nowMs - 2 * DAY_MS)]);
  await client.query(
    `WITH made AS (
        SELECT m.at, (m.at AT TIME ZONE 'UTC')::date AS day, m.event || lpad(n::text, 14, '0') AS event,
          m.delivery || lpad(n::text, 14, '0') AS delivery, n, p.tenant, p.endpoint
        FROM unnest($1::timestamptz[], $2::text[], $3::text[]) WITH ORDINALITY AS m(at, event, delivery, minute)
        CROSS JOIN generate_series(1, $4::int) AS n
        JOIN unnest($5::text[], $6::text[]) WITH ORDINALITY AS p(tenant, endpoint, number)
          ON p.number = 1 + (n + m.minute) % cardinality($5::text[])
      ), published AS (
        INSERT INTO events (day, id, tenant_id, type, content, occurred_at, deliveries, created_at)
        SELECT day, event, tenant, '${TYPE}', $7, at, 1, at FROM made
      )
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, carrier, created_at,
        attempt_count, next_attempt_at, expires_at)
      SELECT day, delivery, tenant, event, '${TYPE}', endpoint, state, delivery, at, 1,
        CASE WHEN state = 'RETRYING' THEN now() + interval '1 hour' END,
        CASE WHEN state = 'DEAD_LETTERED' THEN now() + interval '1 day' END
      FROM made CROSS JOIN LATERAL (SELECT CASE hashtext(delivery) % 50
        WHEN 0 THEN 'RETRYING' WHEN 1 THEN 'DEAD_LETTERED' WHEN 2 THEN 'EXPIRED' WHEN 3 THEN 'CANCELLED'
        ELSE 'DELIVERED' END AS state) s`,
    [
      minutes.map((ms) => new Date(ms)),
      minutes.map((ms) => prefix("event", ms)),
      minutes.map((ms) => prefix("delivery", ms)),
      perMinute,
      targets.map(({ tenant }) => tenant),
      targets.map(({ endpoint }) => endpoint),
      CONTENT,
    ],
  );
  await client.query("ANALYZE events, deliveries");
  await client.end();
  return perMinute * minutes.length;
}

/** The longest time that anyone has waited, in milliseconds. */
export interface Waits {
  readonly publish: number;
  readonly delivery: number;
  readonly read: number;
}

export interface Traffic {
  /** Ends publishing; returns the number of events. */
  stopPublishing(): Promise<number>;
  /** Ends everything. */
  stop(): Promise<Waits>;
}

/** Repeats work until it is stopped, and notes the longest time that it took. */
class Loop {
  longestMs = 0;
  count = 0;
  readonly #done: Promise<void>;
  #stopped = false;

  constructor(work: () => Promise<unknown>, pauseMs: number) {
    this.#done = (async () => {
      while (!this.#stopped) {
        const began = performance.now();
        await untilDone(work);
        this.longestMs = Math.max(this.longestMs, performance.now() - began);
        this.count += 1;
        await delay(pauseMs);
      }
    })();
    // Awaited when it stops.
    this.#done.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }
}

/** Repeats a statement that lost in a deadlock, as publishers do after 503. */
async function untilDone(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isContention(error)) {
        throw error;
      }
    }
  }
}

async function publish(client: Client, { tenant, endpoint }: Place, nowMs: number): Promise<void> {
  const random = (size: number): Uint8Array => crypto.getRandomValues(new Uint8Array(size));
  await client.query(
    `WITH accepted AS (
        INSERT INTO events (day, id, tenant_id, type, content, occurred_at, deliveries, created_at)
        VALUES ($1, $2, $3, '${TYPE}', $4, $5, 1, $5) RETURNING day, id, tenant_id, type
      )
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
      SELECT day, $6, tenant_id, id, type, $7, 'QUEUED', $5 FROM accepted`,
    [
      utcDay(nowMs),
      newId("event", nowMs, random),
      tenant,
      CONTENT,
      new Date(nowMs),
      newId("delivery", nowMs, random),
      endpoint,
    ],
  );
}

/** A few first attempts arrive, a retry succeeds, and a dead letter expires. */
const DELIVER = `WITH chosen AS (
    (SELECT day, id FROM deliveries WHERE state = 'QUEUED' AND carrier IS NULL AND event_type = '${TYPE}' LIMIT 20)
    UNION ALL (SELECT day, id FROM deliveries WHERE state = 'RETRYING' AND event_type = '${TYPE}' LIMIT 1)
    UNION ALL (SELECT day, id FROM deliveries WHERE state = 'DEAD_LETTERED' AND event_type = '${TYPE}' LIMIT 1)
  ), attempted AS (
    INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status)
    SELECT d.day, d.id, d.cycle, d.attempt_count + 1, 'att_' || right(d.id, 24), d.tenant_id, now(), 3, 200
    FROM deliveries d JOIN chosen c ON c.day = d.day AND c.id = d.id
  )
  UPDATE deliveries d SET carrier = d.id, attempt_count = d.attempt_count + 1,
    state = CASE WHEN d.state = 'DEAD_LETTERED' THEN 'EXPIRED' ELSE 'DELIVERED' END
  FROM chosen c WHERE d.day = c.day AND d.id = c.id`;

const READ = `SELECT d.id, e.type FROM deliveries d JOIN events e ON e.day = d.day AND e.id = d.event_id
  WHERE d.tenant_id = $1 ORDER BY d.day DESC, d.id DESC LIMIT 20`;

/** Starts the traffic. */
export async function startTraffic(url: string): Promise<Traffic> {
  const [admin, publisher, receiver, reader] = [
    await connect(url),
    await connect(url, "signet_ingest"),
    await connect(url, "signet_worker"),
    await connect(url, "signet_api"),
  ];
  const targets = await places(admin);
  const [first] = targets;
  await reader.query("SELECT set_config('app.tenant_id', $1, false)", [first?.tenant]);
  let published = 0;
  const publishing = new Loop(async () => {
    await publish(publisher, targets[published % targets.length] as Place, Date.now());
    published += 1;
  }, 10);
  const delivering = new Loop(async () => await receiver.query(DELIVER), 20);
  const reading = new Loop(async () => await reader.query(READ, [first?.tenant]), 20);
  const open = new Loop(async () => {
    await admin.query("BEGIN; SELECT FROM events LIMIT 1; SELECT FROM deliveries LIMIT 1");
    await delay(OPEN_MS);
    await admin.query("COMMIT");
  }, BETWEEN_MS);
  const stopPublishing = async (): Promise<number> => {
    await publishing.stop();
    return published;
  };
  return {
    stopPublishing,
    stop: async () => {
      await Promise.all([stopPublishing(), delivering.stop(), reading.stop(), open.stop()]);
      await Promise.all([admin, publisher, receiver, reader].map(async (client) => await client.end()));
      const waits = [publishing, delivering, reading].map(({ longestMs }) => Math.round(longestMs));
      const [publishMs = 0, delivery = 0, read = 0] = waits;
      return { publish: publishMs, delivery, read };
    },
  };
}

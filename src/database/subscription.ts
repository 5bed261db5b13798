/** A connection of its own that LISTENs and answers queries: what is notified and what is read come over one line. */
import type { Client } from "pg";
import { withinLoopTime } from "../runtime/loop-time.ts";
import { BoundedClient } from "./bounded-client.ts";
import type { Queryable, ServiceRole } from "./pool.ts";

/** Opening takes several turns of the event loop, each of which may be late. */
const CONNECT_MS = 3_000;
/** A query that takes longer is on a connection that is as good as broken. */
const ANSWER_MS = 1_000;

export interface SubscriptionOptions {
  /** Of the primary itself: a pooler that shares connections loses notifications. */
  readonly url: string;
  readonly role: ServiceRole;
  /** A channel name of our own making, never a caller's. */
  readonly channel: string;
  /** The server ends the connection when nothing is asked for so long; milliseconds. */
  readonly idleMs: number;
  readonly onNotification: (payload: string) => void;
  /** Once, when the connection is of no more use. */
  readonly onLost: (error: Error | undefined) => void;
}

export interface Subscription {
  readonly db: Queryable;
  /** Ends the connection, also one that does not answer. */
  close(): Promise<void>;
}

/** Opens the connection and listens; rejects when that fails. */
export async function subscribe(options: SubscriptionOptions): Promise<Subscription> {
  const { url, role, channel, idleMs, onNotification, onLost } = options;
  const client: Client = new BoundedClient({
    connectionString: url,
    // What is written over it can be written anew: nobody waits for the disk.
    options: `-c role=${role} -c TimeZone=UTC -c idle_session_timeout=${idleMs} -c synchronous_commit=off`,
    application_name: role,
    connectionTimeoutMillis: CONNECT_MS,
  });
  let started = false;
  let over = false;
  const close = async (): Promise<void> => {
    over = true;
    await client.end().catch(() => undefined);
  };
  const lose = (error?: Error): void => {
    if (started && !over) {
      over = true;
      onLost(error);
    }
  };
  // From the first moment: an error that nobody listens for ends the process.
  client.on("error", lose);
  client.on("end", () => lose());
  client.on("notification", ({ payload }) => onNotification(payload ?? ""));
  try {
    await client.connect();
    await withinLoopTime(ANSWER_MS, client.query(`LISTEN ${channel}`), () => void client.end());
  } catch (error) {
    await close();
    throw error;
  }
  started = true;
  return { db: client, close };
}

/** A dedicated connection that both listens and queries, so that notifications and answers arrive over one line. */
import type { Client } from "pg";
import { withinLoopTime } from "#runtime/loop-time.ts";
import { BoundedClient, STATEMENT_TIMEOUT_MS } from "./bounded-client.ts";
import type { Queryable } from "./pool.ts";
import { roleSettings, type ServiceRole } from "./role-settings.ts";
import type { Timers } from "#domain/clock.ts";

/** Timeout for opening, in milliseconds. It takes several turns of the event loop, each of which may be late. */
const CONNECT_MS = 3_000;
/** Timeout for a query, in milliseconds. After it, the connection counts as broken. */
const ANSWER_MS = 1_000;

export interface SubscriptionOptions {
  /** URL of the primary itself: a pooler that shares connections loses notifications. */
  readonly url: string;
  readonly role: ServiceRole;
  /** Name of the connection in PostgreSQL's activity; the role by default. */
  readonly name?: string;
  /** Channel name, our own, never a caller's. */
  readonly channel: string;
  /** The server ends the connection if it has been idle for this time, in milliseconds. */
  readonly idleMs: number;
  readonly timers: Timers;
  /** Ends the opening. */
  readonly signal?: AbortSignal | undefined;
  readonly onNotification: (payload: string) => void;
  /** Called once, when the connection is lost. */
  readonly onLost: (error: Error | undefined) => void;
}

export interface Subscription {
  readonly db: Queryable;
  /** Closes the connection, even if it does not answer. */
  close(): Promise<void>;
}

/** Opens the connection and listens. Rejects if that fails. */
export async function subscribe(options: SubscriptionOptions): Promise<Subscription> {
  const { url, role, name = role, channel, idleMs, signal } = options;
  const { timers, onNotification, onLost } = options;
  const client: Client = new BoundedClient({
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: CONNECT_MS,
    // No question waits a round trip for each statement of an acknowledgement.
    pipeline: true,
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
  // Registered from the start, because an error event without a listener ends the process.
  client.on("error", lose);
  client.on("end", () => lose());
  client.on("notification", ({ payload }) => onNotification(payload ?? ""));
  const abort = (): void => void client.connection.stream.destroy();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    await client.connect();
    await withinLoopTime(
      timers,
      ANSWER_MS,
      // Data written over it can be written again, so no commit needs to wait for the disk.
      client.query(
        `${roleSettings(role, STATEMENT_TIMEOUT_MS, "session")}; SET idle_session_timeout = ${idleMs};
         SET synchronous_commit = off; LISTEN ${channel}`,
      ),
      () => void client.end(),
    );
    signal?.throwIfAborted();
  } catch (error) {
    await close();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
  started = true;
  return { db: client, close };
}

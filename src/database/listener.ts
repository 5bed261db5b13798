/** Listens on its own connection. Notifications are hints: if the connection breaks, polling continues. */
import type { Client } from "pg";
import type { Logger } from "pino";
import { BoundedClient } from "./bounded-client.ts";
import { SESSION_IDLE_MS } from "./role-settings.ts";
import type { Timer, Timers } from "#domain/clock.ts";

const RECONNECT_MS = 1_000;
/** Interval of test queries, in milliseconds. A connection that only listens would never notice that it is dead. */
const ASK_EVERY_MS = 2_000;
const ANSWER_MS = 3_000;

export interface ListenerOptions {
  readonly url: string;
  /**
   * Callbacks by channel. Channels are our own names, never a caller's. The payload is undefined after a
   * (re)connection, when notifications may have been missed.
   */
  readonly channels: Readonly<Record<string, (payload: string | undefined) => void>>;
  readonly timers: Timers;
  readonly log: Logger;
}

/**
 * Calls back for every notification, and once after each (re)connection, when some may have been missed.
 *
 * @returns a function that ends it
 */
export function listen({ url, channels, timers, log }: ListenerOptions): () => Promise<void> {
  const names = Object.keys(channels);
  let stopped = false;
  let client: Client | undefined;
  let timer: Timer | undefined;

  async function connect(): Promise<void> {
    const fresh: Client = new BoundedClient({
      connectionString: url,
      application_name: "signet_listener",
      answerMs: ANSWER_MS,
    });
    client = fresh;
    let asking: Timer | undefined;
    let connected = false;
    let lost = false;
    const lose = (error?: Error): void => {
      if (lost || stopped) {
        return;
      }
      lost = true;
      timers.cancel(asking);
      log.warn({ err: error, channel: names.join(" ") }, "notifications interrupted");
      fresh.end().catch(() => undefined);
      // After a connection that worked, reconnect at once: the new one proves others of the same age dead.
      timer = timers.after(connected ? 0 : RECONNECT_MS, () => void connect());
    };
    fresh.on("error", lose);
    fresh.on("end", () => lose());
    fresh.on("notification", ({ channel, payload }) => channels[channel]?.(payload));
    try {
      await fresh.connect();
      const idle = `SET idle_session_timeout = ${SESSION_IDLE_MS}`;
      await fresh.query([idle, ...names.map((name) => `LISTEN ${name}`)].join("; "));
      connected = true;
      asking = timers
        .every(ASK_EVERY_MS, () => {
          // A failure also emits an error on the connection.
          fresh.query("SELECT").catch(() => undefined);
        })
        .unref();
      for (const hear of Object.values(channels)) {
        hear(undefined);
      }
    } catch (error) {
      lose(error as Error);
    }
  }

  const first = connect();
  return async () => {
    stopped = true;
    timers.cancel(timer);
    await first;
    await client?.end().catch(() => undefined);
  };
}

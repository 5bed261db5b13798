/** Listens on its own connection. Notifications are hints: if the connection breaks, polling continues. */
import type { Client } from "pg";
import type { Logger } from "pino";
import { BoundedClient } from "./bounded-client.ts";

const RECONNECT_MS = 1_000;
/** Interval of test queries, in milliseconds. A connection that only listens would never notice that it is dead. */
const ASK_EVERY_MS = 2_000;
const ANSWER_MS = 3_000;

export interface Listener {
  stop(): Promise<void>;
}

export interface ListenerOptions {
  readonly url: string;
  /**
   * Callbacks by channel. Channels are our own names, never a caller's. The payload is undefined after a
   * (re)connection, when notifications may have been missed.
   */
  readonly channels: Readonly<Record<string, (payload: string | undefined) => void>>;
  readonly log: Logger;
}

/** Calls back for every notification, and once after each (re)connection, when some may have been missed. */
export function listen({ url, channels, log }: ListenerOptions): Listener {
  const names = Object.keys(channels);
  let stopped = false;
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function connect(): Promise<void> {
    const fresh: Client = new BoundedClient({
      connectionString: url,
      application_name: "signet_listener",
      answerMs: ANSWER_MS,
    });
    client = fresh;
    let asking: NodeJS.Timeout | undefined;
    let connected = false;
    let lost = false;
    const lose = (error?: Error): void => {
      if (lost || stopped) {
        return;
      }
      lost = true;
      clearInterval(asking);
      log.warn({ err: error, channel: names.join(" ") }, "notifications interrupted");
      fresh.end().catch(() => undefined);
      // After a connection that worked, reconnect at once: the new one proves others of the same age dead.
      timer = setTimeout(() => void connect(), connected ? 0 : RECONNECT_MS);
    };
    fresh.on("error", lose);
    fresh.on("end", () => lose());
    fresh.on("notification", ({ channel, payload }) => channels[channel]?.(payload));
    try {
      await fresh.connect();
      await fresh.query(names.map((name) => `LISTEN ${name}`).join("; "));
      connected = true;
      asking = setInterval(() => {
        // A failure also emits an error on the connection.
        fresh.query("SELECT").catch(() => undefined);
      }, ASK_EVERY_MS).unref();
      for (const hear of Object.values(channels)) {
        hear(undefined);
      }
    } catch (error) {
      lose(error as Error);
    }
  }

  const first = connect();
  return {
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await first;
      await client?.end().catch(() => undefined);
    },
  };
}

/** LISTEN on a connection of its own. Notifications are hints: when the connection breaks, polling goes on. */
import type { Client } from "pg";
import type { Logger } from "pino";
import { BoundedClient } from "./bounded-client.ts";

const RECONNECT_MS = 1_000;
/** A connection that only listens would never notice that nothing can arrive: it is asked so often. */
const ASK_EVERY_MS = 2_000;
const ANSWER_MS = 3_000;

export interface Listener {
  stop(): Promise<void>;
}

export interface ListenerOptions {
  readonly url: string;
  /**
   * Who hears of which channel; names of our own making, never a caller's. A payload is undefined after a
   * (re)connection, when some may have been missed.
   */
  readonly channels: Readonly<Record<string, (payload: string | undefined) => void>>;
  readonly log: Logger;
}

/** Calls back for every notification, and once after each (re)connection, since some may have been missed. */
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
      // At once after a connection that worked: its successor proves the others of its age dead.
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
        // A failure is an error of the connection as well.
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

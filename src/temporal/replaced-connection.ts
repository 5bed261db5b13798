/**
 * A process's connection to Temporal, replaced if it dies silently or was opened while Temporal said nothing. The SDK's
 * core probes an idle connection after 30 s and waits 15 s more, which is not configurable. gRPC for Node probes only
 * after the server's first settings, and waits for these without a limit.
 */
import type { Logger } from "pino";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { within } from "#runtime/within.ts";
import type { Timers } from "#domain/clock.ts";

const LOOK_EVERY_MS = 2_000;
/** Failed probes before another connection is tried. */
const MISSES = 2;
const CONNECT_MS = 3_000;

export interface ReplacedConnectionOptions<Connection> {
  /** Opens another connection, which shares no socket with earlier ones. Rejects if Temporal is unavailable. */
  readonly connect: () => Promise<Connection>;
  /** Asks Temporal over a connection. Rejects if there is no answer within 2 s. */
  readonly probe: (connection: Connection) => Promise<unknown>;
  /** Returns the API key, if one is used that the connection does not ask for itself. */
  readonly apiKey?: (() => string) | undefined;
  /**
   * How long calls and their retries may last, in milliseconds; 0 by default. The replaced connection is closed after it.
   * On a closed one, gRPC for Node throws from the timer of a retry, which ends the process.
   */
  readonly callsLastMs?: number;
  readonly timers: Timers;
  readonly log: Logger;
}

/** The part of both kinds of connections that matters here. */
interface Replaceable {
  setApiKey(apiKey: string): unknown;
  close(): Promise<void>;
}

/** Those that hold a connection. */
interface Users<Connection> {
  /** @param another opens a further one, for what is yet to be said for the earlier users */
  use(fresh: Connection, another: () => Promise<Connection>): Promise<void>;
}

/** Those whose calls over the earlier connection get no answer. */
interface Callers {
  reconnected(): void;
}

export class ReplacedConnection<Connection extends Replaceable> {
  /** Proxy whose calls use the newest connection. */
  readonly connection: Connection;
  readonly #options: ReplacedConnectionOptions<Connection>;
  #current: Connection;
  #apiKey: string | undefined;
  #misses = 0;

  constructor(first: Connection, options: ReplacedConnectionOptions<Connection>) {
    this.#current = first;
    this.#options = options;
    this.connection = new Proxy({} as Connection, {
      get: (_target, name) => {
        const value: unknown = Reflect.get(this.#current, name, this.#current);
        return typeof value === "function" ? (value.bind(this.#current) as unknown) : value;
      },
    });
  }

  /**
   * Probes the connection. Replaces it if it does not respond and a new one does.
   *
   * @param users take each new connection before calls use it. If they reject, the earlier one stays, and the next look
   *   tries again.
   * @param callers learn of each replacement, when calls use the new connection
   */
  watch(users?: Users<Connection>, callers?: Callers): UpkeepJob {
    return {
      name: "connection to Temporal",
      everyMs: LOOK_EVERY_MS,
      run: async () => {
        await this.#renewApiKey();
        const answer = this.#answers(this.#current);
        // Beside the probe: until both are silent, each takes its time.
        const opening = this.#misses + 1 >= MISSES ? this.#open() : undefined;
        if (await answer) {
          this.#misses = 0;
          await (await opening)?.close();
          return;
        }
        this.#misses += 1;
        const fresh = await opening;
        if (fresh !== undefined) {
          await this.#replace(fresh, users);
          callers?.reconnected();
        }
      },
    };
  }

  /** Gives a rotated API key to the connection, whose workers' polls use it too. */
  async #renewApiKey(): Promise<void> {
    const apiKey = this.#options.apiKey?.();
    if (apiKey !== undefined && apiKey !== this.#apiKey) {
      await this.#current.setApiKey(apiKey);
      if (this.#apiKey !== undefined) {
        this.#options.log.info("using another API key for Temporal");
      }
      this.#apiKey = apiKey;
    }
  }

  async #answers(connection: Connection): Promise<boolean> {
    return await this.#options.probe(connection).then(
      () => true,
      () => false,
    );
  }

  /** Opens another connection. Undefined if Temporal itself is unavailable, so that a new one would not help. */
  async #open(): Promise<Connection | undefined> {
    const connecting = this.#options.connect();
    const fresh = await within(this.#options.timers, CONNECT_MS, connecting).catch(() => undefined);
    if (fresh !== undefined && (await this.#answers(fresh))) {
      return fresh;
    }
    connecting.then(
      async (late) => await late.close(),
      () => undefined,
    );
    return undefined;
  }

  async #replace(fresh: Connection, users: Users<Connection> | undefined): Promise<void> {
    const dead = this.#current;
    this.#options.log.warn("the connection to Temporal does not respond and is being replaced");
    try {
      // Workers first: with them on the same connection, a start may be eager.
      await users?.use(fresh, this.#options.connect);
    } catch (error) {
      await fresh.close();
      throw error;
    }
    this.#current = fresh;
    this.#misses = 0;
    const { callsLastMs = 0, timers, log } = this.#options;
    const close = async (): Promise<void> =>
      await dead.close().catch((error: unknown) => log.debug({ err: error }, "not closed"));
    await (callsLastMs === 0 ? close() : void timers.after(callsLastMs, () => void close()).unref());
  }
}

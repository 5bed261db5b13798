/**
 * A worker process's connection to Temporal, replaced if it dies silently. The SDK's core probes an idle connection
 * after 30 s and waits 15 s more, which is not configurable. Until then, no workflow starts.
 */
import type { NativeConnection } from "@temporalio/worker";
import type { Logger } from "pino";
import type { UpkeepJob } from "../runtime/upkeep.ts";
import { within } from "../runtime/within.ts";
import { checkNamespace } from "./client.ts";
import { createNativeClient } from "./native-client.ts";
import type { Workers } from "./workers.ts";

const LOOK_EVERY_MS = 2_000;
/** Failed probes of 2 s each before another connection is tried. */
const MISSES = 2;
const CONNECT_MS = 3_000;

export interface ReplacedConnectionOptions {
  readonly namespace: string;
  /** Returns the current API key, if one is used. */
  readonly apiKey?: (() => string) | undefined;
  /** Opens another connection. Rejects if Temporal is unavailable. */
  readonly connect: () => Promise<NativeConnection>;
  readonly log: Logger;
}

export class ReplacedConnection {
  /** Proxy whose calls use the newest connection. */
  readonly connection: NativeConnection;
  readonly #options: ReplacedConnectionOptions;
  #current: NativeConnection;
  #apiKey: string | undefined;
  #misses = 0;

  constructor(first: NativeConnection, options: ReplacedConnectionOptions) {
    this.#current = first;
    this.#options = options;
    this.connection = new Proxy({} as NativeConnection, {
      get: (_target, name) => {
        const value: unknown = Reflect.get(this.#current, name, this.#current);
        return typeof value === "function" ? (value.bind(this.#current) as unknown) : value;
      },
    });
  }

  /** Probes the connection. Replaces it if it does not respond and a new one does. */
  watch(workers: Pick<Workers, "use">): UpkeepJob {
    return {
      name: "connection to Temporal",
      everyMs: LOOK_EVERY_MS,
      run: async () => {
        await this.#renewApiKey();
        if (await this.#answers(this.#current)) {
          this.#misses = 0;
          return;
        }
        this.#misses += 1;
        if (this.#misses >= MISSES) {
          await this.#replace(workers);
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

  async #answers(connection: NativeConnection): Promise<boolean> {
    const client = createNativeClient(connection, this.#options.namespace, undefined);
    return await checkNamespace(client).then(
      () => true,
      () => false,
    );
  }

  async #replace(workers: Pick<Workers, "use">): Promise<void> {
    const connecting = this.#options.connect();
    const fresh = await within(CONNECT_MS, connecting).catch(() => undefined);
    if (fresh === undefined || !(await this.#answers(fresh))) {
      // Temporal itself is unavailable, so a new connection would not help.
      connecting.then(
        async (late) => await late.close(),
        () => undefined,
      );
      return;
    }
    const dead = this.#current;
    this.#options.log.warn("the connection to Temporal does not respond and is being replaced");
    // Workers first, because they compare the new connection with their current one.
    workers.use(fresh);
    this.#current = fresh;
    this.#misses = 0;
    await dead.close().catch((error: unknown) => this.#options.log.debug({ err: error }, "not closed"));
  }
}

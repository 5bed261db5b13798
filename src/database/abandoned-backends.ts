/**
 * Backends of connections that a pool has given up. PostgreSQL does not end a COMMIT that waits for a synchronous standby,
 * and its backend does not notice that the client has left. Without a count, a pool would fill the server with them.
 */
import type { Client } from "pg";
import { BoundedClient, type BoundedClientConfig } from "./bounded-client.ts";

/** How often to ask whether they are still at work, in milliseconds. */
const LOOK_EVERY_MS = 1_000;
/**
 * One that has ended its statement, or cannot send the answer, works no longer: there, only the connection was dead. On
 * another server, after a fail-over, there is none.
 */
const AT_WORK = `SELECT pid FROM pg_stat_activity
  WHERE pid = ANY($1::int[]) AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'`;

export class AbandonedBackends {
  readonly #config: BoundedClientConfig;
  readonly #onEnded: () => void;
  #pids: readonly number[] = [];
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  /**
   * @param config how to ask the server, over a connection of its own
   * @param onEnded called when there are fewer
   */
  constructor(config: BoundedClientConfig, onEnded: () => void) {
    this.#config = config;
    this.#onEnded = onEnded;
  }

  get count(): number {
    return this.#pids.length;
  }

  add(pid: number): void {
    this.#pids = [...this.#pids, pid];
    this.#lookLater();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #lookLater(): void {
    if (this.#pids.length > 0 && !this.#stopped) {
      this.#timer ??= setTimeout(() => void this.#look(), LOOK_EVERY_MS).unref();
    }
  }

  async #look(): Promise<void> {
    const asked = this.#pids;
    const atWork = await this.#askServer(asked);
    this.#timer = undefined;
    this.#pids = this.#pids.filter((pid) => !asked.includes(pid) || atWork.includes(pid));
    this.#lookLater();
    if (atWork.length < asked.length) {
      this.#onEnded();
    }
  }

  /** Resolves to those at work. If the server does not answer, all may be. */
  async #askServer(pids: readonly number[]): Promise<readonly number[]> {
    const client: Client = new BoundedClient(this.#config);
    client.on("error", () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query<{ pid: number }>(AT_WORK, [pids]);
      return rows.map(({ pid }) => pid);
    } catch {
      return pids;
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}

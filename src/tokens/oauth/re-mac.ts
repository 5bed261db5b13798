/** Moves client secrets to the newest pepper when they are used: only then is the secret itself available. */
import type { Logger } from "#observability/logger.ts";
import type { OldMac } from "./client-authentication.ts";

export class ReMac {
  readonly #write: (old: OldMac) => Promise<void>;
  readonly #log: Logger;
  readonly #underWay = new Map<string, Promise<void>>();

  /** @param write replaces the MAC if it is still the old one */
  constructor(write: (old: OldMac) => Promise<void>, log: Logger) {
    this.#write = write;
    this.#log = log;
  }

  /** Starts to write the new MAC. If that fails, the next success retries it. */
  note(old: OldMac): void {
    const name = `${old.credential_id} ${old.version}`;
    if (this.#underWay.has(name)) {
      return;
    }
    const writing = this.#write(old)
      .catch((error: unknown) =>
        this.#log.warn({ err: error }, "a secret could not be moved to the new pepper"),
      )
      .finally(() => this.#underWay.delete(name));
    this.#underWay.set(name, writing);
  }

  /** Waits for pending writes. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }
}

/** Records when each secret version was last used: once a minute per version, and without delaying answers. */
import type { UsedVersion } from "#database/repositories/tokens/clients.ts";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";

const THROTTLE_MS = 60_000;
const WRITE_EVERY_MS = 1_000;

export interface LastUsedOptions {
  readonly write: (used: readonly UsedVersion[]) => Promise<void>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
}

export class LastUsedRecorder {
  readonly #options: LastUsedOptions;
  readonly #noted = new Map<string, UsedVersion>();
  readonly #timer: Timer;

  constructor(options: LastUsedOptions) {
    this.#options = options;
    this.#timer = options.timers.every(WRITE_EVERY_MS, () => void this.#flush()).unref();
  }

  /** Notes a use. Does nothing if the version's last recorded use is less than a minute old. */
  note(
    { credential_id }: { readonly credential_id: string },
    { version, last_used_at: lastUsedAt }: { readonly version: number; readonly last_used_at: number | null },
  ): void {
    const usedAtMs = this.#options.clock.now();
    if (lastUsedAt === null || usedAtMs - lastUsedAt >= THROTTLE_MS) {
      this.#noted.set(`${credential_id} ${version}`, { credential_id, version, usedAtMs });
    }
  }

  /** Writes the noted uses and stops. */
  async close(): Promise<void> {
    this.#options.timers.cancel(this.#timer);
    await this.#flush();
  }

  async #flush(): Promise<void> {
    if (this.#noted.size === 0) {
      return;
    }
    const used = [...this.#noted.values()];
    this.#noted.clear();
    try {
      await this.#options.write(used);
    } catch (error) {
      // The next use of each version is recorded again.
      this.#options.log.warn(
        { err: error, versions: used.length },
        "last use of secrets could not be written",
      );
    }
  }
}

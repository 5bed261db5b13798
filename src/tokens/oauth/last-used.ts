/** Records when each secret version was last used: once a minute per version, and without delaying answers. */
import type { UsedVersion } from "#database/repositories/tokens/clients.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";

const THROTTLE_MS = 60_000;
const WRITE_EVERY_MS = 1_000;

export interface LastUsedRecorder {
  /** Notes a use. Does nothing if the version's last recorded use is less than a minute old. */
  note(
    credential: { readonly credential_id: string },
    version: { readonly version: number; readonly last_used_at: number | null },
  ): void;
  /** Writes the noted uses and stops. */
  close(): Promise<void>;
}

export interface LastUsedOptions {
  readonly write: (used: readonly UsedVersion[]) => Promise<void>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
}

/** Creates the recorder. */
export function createLastUsedRecorder({ write, clock, timers, log }: LastUsedOptions): LastUsedRecorder {
  const noted = new Map<string, UsedVersion>();

  async function flush(): Promise<void> {
    if (noted.size === 0) {
      return;
    }
    const used = [...noted.values()];
    noted.clear();
    try {
      await write(used);
    } catch (error) {
      // The next use of each version is recorded again.
      log.warn({ err: error, versions: used.length }, "last use of secrets could not be written");
    }
  }

  const timer = timers.every(WRITE_EVERY_MS, () => void flush()).unref();
  return {
    note: ({ credential_id: credentialId }, { version, last_used_at: lastUsedAt }) => {
      const usedAtMs = clock.now();
      if (lastUsedAt === null || usedAtMs - lastUsedAt >= THROTTLE_MS) {
        noted.set(`${credentialId} ${version}`, { credential_id: credentialId, version, usedAtMs });
      }
    },
    close: async () => {
      timers.cancel(timer);
      await flush();
    },
  };
}

/** Moves client secrets to the newest pepper when they are used: only then is the secret itself available. */
import type { Logger } from "#observability/logger.ts";
import type { OldMac } from "./client-authentication.ts";

export interface ReMac {
  /** Starts to write the new MAC. If that fails, the next success retries it. */
  note(old: OldMac): void;
  /** Waits for pending writes. */
  close(): Promise<void>;
}

/** @param write replaces the MAC if it is still the old one */
export function createReMac(write: (old: OldMac) => Promise<void>, log: Logger): ReMac {
  const underWay = new Map<string, Promise<void>>();
  return {
    note: (old) => {
      const name = `${old.credential_id} ${old.version}`;
      if (underWay.has(name)) {
        return;
      }
      const writing = write(old)
        .catch((error: unknown) => log.warn({ err: error }, "a secret could not be moved to the new pepper"))
        .finally(() => underWay.delete(name));
      underWay.set(name, writing);
    },
    close: async () => {
      await Promise.all(underWay.values());
    },
  };
}

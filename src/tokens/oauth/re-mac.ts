/** Moves client secrets to the newest pepper: the moment of a success is the only one in which a secret is at hand. */
import type { Logger } from "../../observability/logger.ts";
import type { OldMac } from "./client-authentication.ts";

export interface ReMac {
  /** Writes the new MAC beside the answer; a failure is made good by the next success. */
  note(old: OldMac): void;
  /** Waits for what is under way. */
  close(): Promise<void>;
}

/** @param write replaces the MAC where it is still the old one */
export function createReMac(write: (old: OldMac) => Promise<void>, log: Logger): ReMac {
  const underWay = new Map<string, Promise<void>>();
  return {
    note: (old) => {
      const name = `${old.credentialId} ${old.version}`;
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

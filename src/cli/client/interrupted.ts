/** Commands that run until somebody ends them. */

import { startedByNpx } from "../../config/config.ts";

const LOOK_MS = 500;

/**
 * Resolves with nothing when somebody ends the command. Under npx that is also when the parent is gone: npm passes a
 * signal on to the shell between it and the command, which ends without a word to the command.
 */
export function untilInterrupted(): { readonly interrupted: Promise<void>; readonly forget: () => void } {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  let stop = (): void => undefined;
  let watch: NodeJS.Timeout | undefined;
  const interrupted = new Promise<void>((resolve) => {
    stop = resolve;
    for (const signal of signals) {
      process.on(signal, stop);
    }
    const parent = process.ppid;
    if (startedByNpx()) {
      watch = setInterval(() => process.ppid !== parent && resolve(), LOOK_MS).unref();
    }
  });
  return {
    interrupted,
    forget: () => {
      clearInterval(watch);
      for (const signal of signals) {
        process.off(signal, stop);
      }
    },
  };
}

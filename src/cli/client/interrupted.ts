/** Waits for the end of a command that runs until it is interrupted. */

import { startedByNpx } from "#config/config.ts";

const LOOK_MS = 500;

/**
 * Resolves when the command is interrupted. Under npx it also resolves when the parent process has exited. There, npm
 * forwards a signal only to the shell between npm and the command. That shell exits without signalling the command.
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

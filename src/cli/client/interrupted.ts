/** Commands that run until somebody ends them. */

/** Resolves with nothing when somebody ends the command. */
export function untilInterrupted(): { readonly interrupted: Promise<void>; readonly forget: () => void } {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  let stop = (): void => undefined;
  const interrupted = new Promise<void>((resolve) => {
    stop = resolve;
    for (const signal of signals) {
      process.on(signal, stop);
    }
  });
  return {
    interrupted,
    forget: () => {
      for (const signal of signals) {
        process.off(signal, stop);
      }
    },
  };
}

/** Ends servers when their test process exits, for any reason. */

/**
 * Interrupts a server when this process exits. Ignores a server that has already ended.
 *
 * @param pidOf returns the server's current pid, or undefined if it is not running
 * @returns a function that removes the handler
 */
export function interruptOnExit(pidOf: () => number | undefined): () => void {
  const interrupt = (): void => {
    const pid = pidOf();
    try {
      void (pid !== undefined && process.kill(pid, "SIGINT"));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") {
        throw error;
      }
    }
  };
  process.once("exit", interrupt);
  return () => void process.off("exit", interrupt);
}

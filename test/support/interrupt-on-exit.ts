/** Servers that must not outlive their test process, however it ends. */

/**
 * Interrupts a server when this process exits; one that has ended already is no fault.
 *
 * @param pidOf the server as it runs then, undefined when there is none
 * @returns takes it back
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

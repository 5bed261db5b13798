import { randomInt } from "node:crypto";
import { isPortFree } from "../../src/processes/embedded/ports.ts";

/**
 * A free port of 127.0.0.1. From below the range that the system takes for outgoing connections: one of those cannot
 * come between this look and the use.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 30_000);
    if (await isPortFree("127.0.0.1", port)) {
      return port;
    }
  }
}

/** So many free ports, no two of them the same. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    ports.add(await freePort());
  }
  return [...ports];
}

import { randomInt } from "node:crypto";
import { isPortFree } from "../../src/processes/embedded/ports.ts";

/**
 * Returns a free port of 127.0.0.1 below the system's range for outgoing connections, so that no such connection can
 * take the port before it is used.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 30_000);
    if (await isPortFree("127.0.0.1", port)) {
      return port;
    }
  }
}

/** Returns `count` distinct free ports. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    ports.add(await freePort());
  }
  return [...ports];
}

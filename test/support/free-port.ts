import { randomInt } from "node:crypto";
import { isPortFree } from "#processes/embedded/ports.ts";

/** Below the system's range for outgoing connections, so that no such connection can take a port before it is used. */
const FIRST_PORT = 20_000;
/** Files that run at once have ranges of their own. */
const RANGES = 5;
const PORTS_OF_RANGE = 2_000;
const range = Number(process.env["VITEST_POOL_ID"] ?? 0) % RANGES;
/** Half of the range, so that a free one is found soon. A run of the compose file takes some 200. */
const REMEMBERED = PORTS_OF_RANGE / 2;
/** The latest ports, oldest first. */
const given = new Set<number>();

/** Returns a free port of 127.0.0.1 that no test got lately: it may be used later, or have to stay unused. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + range * PORTS_OF_RANGE + randomInt(PORTS_OF_RANGE);
    if (given.has(port)) {
      continue;
    }
    given.add(port);
    for (const oldest of given) {
      if (given.size <= REMEMBERED) {
        break;
      }
      given.delete(oldest);
    }
    if (await isPortFree("127.0.0.1", port)) {
      return port;
    }
  }
}

/** Returns `count` distinct free ports. */
export async function freePorts(count: number): Promise<number[]> {
  return await Promise.all(Array.from({ length: count }, freePort));
}

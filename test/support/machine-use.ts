/** Notices what this process does with the machine: sockets, other processes and threads. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { join } from "node:path";

/** Node's own reports. There is none of a process that its caller waits for, as in `spawnSync`. */
const CHANNELS = [
  "net.client.socket",
  "tracing:net.server.listen:asyncStart",
  "udp.socket",
  "child_process",
  "worker_threads",
];
const ROOT = join(import.meta.dirname, "..", "..");

/** Returns the innermost place of a stack that is in the repository. */
function placeOf(stack = ""): string {
  const place = stack
    .split("\n")
    .find((line) => line.includes(ROOT) && !/node_modules|machine-use\.ts/.test(line));
  return place?.trim().replace(`${ROOT}/`, "") ?? "in code of a package";
}

export interface MachineUse {
  /** Each use: the name of the channel, and the place. */
  readonly uses: readonly string[];
  end(): void;
}

/** Notes what this process uses from now on. */
export function watchMachine(): MachineUse {
  const uses: string[] = [];
  const note = (_message: unknown, name: string | symbol): void => {
    uses.push(`${String(name)} ${placeOf(new Error("used").stack)}`);
  };
  CHANNELS.forEach((name) => subscribe(name, note));
  return { uses, end: () => CHANNELS.forEach((name) => unsubscribe(name, note)) };
}

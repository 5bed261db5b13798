/** Outlives the bench. Stops the servers that the bench left running, and removes its directories. */
import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { promisify } from "node:util";
import { processIdentity } from "#processes/embedded/process-identity.ts";
import { stopProcess } from "#processes/embedded/server-process.ts";

interface Charge {
  readonly pid: number;
  /** Detects a reused pid. */
  readonly identity: string | undefined;
  readonly signal: NodeJS.Signals;
}

export type JanitorOrder =
  | { readonly mind: Charge }
  | { readonly remove: string }
  | { readonly unmount: string };

const run = promisify(execFile);

const TIMEOUT_MS = 10_000;
const KILL_TIMEOUT_MS = 5_000;

const charges: Charge[] = [];
const directories: string[] = [];
const mounts: string[] = [];

process.on("message", (message) => {
  const order = message as JanitorOrder;
  if ("mind" in order) {
    charges.push(order.mind);
  } else if ("unmount" in order) {
    mounts.push(order.unmount);
  } else {
    directories.push(order.remove);
  }
});

async function stop({ pid, identity, signal }: Charge): Promise<void> {
  if (identity !== undefined && processIdentity(pid) === identity) {
    await stopProcess(pid, [
      [signal, TIMEOUT_MS],
      ["SIGKILL", KILL_TIMEOUT_MS],
    ]);
  }
}

async function unmount(directory: string): Promise<void> {
  // It may have been unmounted already.
  await run("umount", ["--lazy", directory]).catch(() => undefined);
}

async function tidy(): Promise<void> {
  // Later processes depend on earlier ones.
  for (const charge of charges.toReversed()) {
    await stop(charge);
  }
  await Promise.all(mounts.map(unmount));
  await Promise.all(directories.map(async (path) => await rm(path, { recursive: true, force: true })));
  process.exit(0);
}

process.once("disconnect", () => void tidy());
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => undefined);
}

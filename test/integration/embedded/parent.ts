import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { vi } from "vitest";

export interface Parent<Server> {
  readonly child: ChildProcess;
  readonly server: Server;
  readonly exit: Promise<number | null>;
}

export interface ParentOptions {
  /** Directory of the clone to run; by default, this one. */
  readonly clone?: string;
  readonly user?: { readonly uid: number; readonly gid: number };
}

/** Starts `run-server.ts` as a process and waits until its server is up. */
export async function startParent<Server>(
  args: readonly string[],
  { clone = join(import.meta.dirname, "..", "..", ".."), user }: ParentOptions = {},
): Promise<Parent<Server>> {
  const script = join(clone, "test", "integration", "embedded", "run-server.ts");
  const child = spawn(process.execPath, [script, ...args], { cwd: "/", ...user });
  let output = "";
  let errors = "";
  child.stdout.on("data", (chunk) => (output += String(chunk)));
  child.stderr.on("data", (chunk) => (errors += String(chunk)));
  const exit = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const server = await vi.waitFor(
    () => {
      if (child.exitCode === null && !output.endsWith("\n")) {
        throw new Error(errors);
      }
      return output;
    },
    { timeout: 30_000 },
  );
  if (server === "") {
    throw new Error(`the parent ended: ${errors}`);
  }
  return { child, server: JSON.parse(server) as Server, exit };
}

/** Lets the process stop its server and waits for its end. */
export async function stopParent({ child, exit }: Parent<unknown>): Promise<number | null> {
  child.stdin?.end();
  return await exit;
}

/** Kills the process with SIGKILL, so that it cannot stop its server. */
export async function killParent({ child, exit }: Parent<unknown>): Promise<void> {
  child.kill("SIGKILL");
  await exit;
}

/** Long-running commands end even if the signal does not reach them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { imageEnvironment, productionImage } from "#test/support/processes.ts";

const WAIT = `const { untilInterrupted } = await import("./dist/src/cli/client/interrupted.js");
  const { interrupted, forget } = untilInterrupted();
  const alive = setInterval(() => undefined, 1_000);
  console.log("waits");
  await interrupted;
  forget();
  clearInterval(alive);
  console.log("interrupted");`;

test("a command under npx ends when the shell in between is gone", async () => {
  // As npm runs a command: a shell waits for it, and dies of the signal that npm passes on.
  const script = '"$0" --input-type=module --eval "$1"; true';
  const shell = spawn("sh", ["-c", script, process.execPath, WAIT], {
    cwd: productionImage(),
    env: { ...process.env, ...imageEnvironment(), npm_command: "exec" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  shell.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
    if (text.includes("waits")) {
      shell.kill("SIGTERM");
    }
  });
  // The output closes when the command, its last holder, ends.
  await once(shell, "close");
  expect(printed).toBe("waits\ninterrupted\n");
});

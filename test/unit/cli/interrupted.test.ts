/** Commands that run until somebody ends them, end also where the word does not come to them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";

const MODULE = join(import.meta.dirname, "..", "..", "..", "src", "cli", "client", "interrupted.ts");
const WAIT = `const { untilInterrupted } = await import(${JSON.stringify(MODULE)});
  const { interrupted, forget } = untilInterrupted();
  const alive = setInterval(() => undefined, 1_000);
  console.log("waits");
  await interrupted;
  forget();
  clearInterval(alive);
  console.log("interrupted");`;

test("a command under npx ends when the shell between them is gone", async () => {
  // As npm runs a command: by a shell that waits for it, and dies of the signal that npm passes on.
  const script = '"$0" --import tsx --input-type=module --eval "$1"; true';
  const shell = spawn("sh", ["-c", script, process.execPath, WAIT], {
    env: { ...process.env, npm_command: "exec" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  shell.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
    if (text.includes("waits")) {
      shell.kill("SIGTERM");
    }
  });
  // The output is open for as long as somebody holds it, which is the command.
  await once(shell, "close");
  expect(printed).toBe("waits\ninterrupted\n");
});

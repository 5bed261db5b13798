/** Prometheus' own checker, if installed (Debian: the package `prometheus`). */
import { spawn, spawnSync } from "node:child_process";
import { skipUnless } from "./skips.ts";

const PROGRAM = "promtool";

/** For `skipIf`: whether it is missing. */
export const NO_PROMTOOL = skipUnless(
  spawnSync(PROGRAM, ["--version"]).error === undefined,
  "the checks with promtool",
  "it is not on PATH (Debian: apt install prometheus)",
);

export interface PromtoolResult {
  readonly code: number | null;
  readonly output: string;
}

/** Runs it with a text on its standard input. */
export async function promtool(args: readonly string[], input = ""): Promise<PromtoolResult> {
  const child = spawn(PROGRAM, args, { stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stdin.end(input);
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });
}

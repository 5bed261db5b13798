/** Prometheus' own checker, if installed. */
import { spawn } from "node:child_process";
import { lacks } from "./skips.ts";

/** For `skipIf`: whether it is missing. */
export const NO_PROMTOOL = lacks("the checks with promtool", "promtool --version");

export interface PromtoolResult {
  readonly code: number | null;
  readonly output: string;
}

/** Runs it with a text on its standard input. */
export async function promtool(args: readonly string[], input = ""): Promise<PromtoolResult> {
  const child = spawn("promtool", args, { stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stdin.end(input);
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });
}

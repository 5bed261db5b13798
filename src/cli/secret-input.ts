/** Reads secrets from the terminal or standard input, never from the command line, which other users can see. */
import { text as readStream } from "node:stream/consumers";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import type { CliContext } from "./context.ts";

/** Asks for a secret on a terminal without echo; otherwise reads it from standard input. */
export async function readSecret(context: CliContext, prompt: string): Promise<string> {
  if (!process.stdin.isTTY) {
    return (await readStream(process.stdin)).trim();
  }
  const mute = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: mute, terminal: true });
  context.stderr(`${prompt}: `);
  try {
    return (await lines.question("")).trim();
  } finally {
    lines.close();
    context.stderr("\n");
  }
}

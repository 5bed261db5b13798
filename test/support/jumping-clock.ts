/** An adjustable wall clock of a running process under test. */
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Environment } from "#config/config.ts";

const PRELOAD = new URL("jumping-clock.mjs", import.meta.url).href;

export interface JumpingClock {
  /** Environment for the process. Worker threads of a Node.js process follow the clock too. */
  readonly environment: Environment;
  /** Sets the clock `offsetMs` ahead of the machine's; 0 corrects it. Takes effect within 20 ms. */
  jump(offsetMs: number): Promise<void>;
}

/** Creates a correct clock. @param directory directory of its file; removed by the caller */
export async function createJumpingClock(directory: string): Promise<JumpingClock> {
  const file = join(directory, "clock-offset");
  const jump = async (offsetMs: number): Promise<void> => {
    // Rename, so that the process never reads a partial number.
    await writeFile(`${file}.next`, String(offsetMs));
    await rename(`${file}.next`, file);
  };
  await jump(0);
  return {
    environment: { NODE_OPTIONS: `--import=${PRELOAD}`, TEST_CLOCK_OFFSET_FILE: file },
    jump,
  };
}

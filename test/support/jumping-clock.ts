/** The wall clock of a process under test, which a test can set wrong and right again while the process runs. */
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Environment } from "../../src/config/config.ts";

const PRELOAD = new URL("jumping-clock.mjs", import.meta.url).href;

export interface JumpingClock {
  /** Start the process with it; also the worker threads of a Node.js process follow the clock. */
  readonly environment: Environment;
  /** Sets the process's clock so many milliseconds ahead of the machine's; 0: right again. Takes effect within 20 ms. */
  jump(offsetMs: number): Promise<void>;
}

/** A clock that is right until it jumps. @param directory where its file goes; removed by the caller */
export async function createJumpingClock(directory: string): Promise<JumpingClock> {
  const file = join(directory, "clock-offset");
  const jump = async (offsetMs: number): Promise<void> => {
    // Renamed into place: the process must not read half a number.
    await writeFile(`${file}.next`, String(offsetMs));
    await rename(`${file}.next`, file);
  };
  await jump(0);
  return {
    environment: { NODE_OPTIONS: `--import=${PRELOAD}`, TEST_CLOCK_OFFSET_FILE: file },
    jump,
  };
}

/** Writes a text summary beside the CPU profiles of a run. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { profileText, summariseProfiles } from "../measure/cpu-profile.ts";
import type { Bench } from "../scenarios/bench.ts";

/** Call after the profiled processes have ended. */
export async function writeProfiles(bench: Bench, directory: string): Promise<void> {
  const summaries = await summariseProfiles(directory, bench.windows);
  const path = join(directory, "summary.txt");
  await writeFile(path, summaries.map(profileText).join("\n"));
  bench.log(`profile summary written to ${path}`);
}

/** Measures the npm packages: sizes, and the CPU time of the command line's start. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cpuOfStart, installInto, packPackages } from "#test/support/packages.ts";
import { DIST } from "../environment/signet.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

async function runScenario(bench: Bench): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "signet-packages-"));
  try {
    const packed = await packPackages(directory, DIST);
    const project = join(directory, "project");
    await installInto(project, [packed.cli.tarball]);
    const program = join(project, "node_modules", ".bin", "signet");
    const sizes = Object.entries(packed).map(([name, { bytes, unpackedBytes, files }]) => [
      name,
      {
        packed_kb: round(bytes / 1_000, 1),
        unpacked_kb: round(unpackedBytes / 1_000, 1),
        files: files.length,
      },
    ]);
    const finding = {
      ...(Object.fromEntries(sizes) as object),
      version_cpu_s: round(await cpuOfStart(program, ["--version"]), 3),
      help_cpu_s: round(await cpuOfStart(program, ["--help"]), 3),
      node_cpu_s: round(await cpuOfStart("--eval", ["0"]), 3),
    };
    bench.findings["packages"] = finding;
    bench.log(JSON.stringify(finding, undefined, 2));
  } finally {
    await rm(directory, { recursive: true });
  }
}

export const packages: Scenario = {
  name: "packages",
  about: "npm packages: sizes, and CPU of the command line's start beside Node's own",
  run: runScenario,
};

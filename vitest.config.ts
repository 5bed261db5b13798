import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { LongAmongFirst } from "./test/support/file-order.ts";
import { FACTOR } from "./test/support/properties.ts";

const SERVERS = ["./test/support/global-setup.ts"];
const SYSTEM = ["integration", "workflows", "replay", "conformance", "e2e", "chaos", "upgrade"];
/** A file that leaves its process changed fails. */
const RESTORED = "./test/support/restored-globals.ts";
const FAILURES = ["./test/support/report-failures.ts"];
/** Property tests of these projects take as many times longer as they try more cases (test/support/properties.ts). */
const PROPERTIES_TIMEOUT_MS = 60_000 * Math.max(1, FACTOR);
const RECORDING = process.env["SIGNET_RECORD_HISTORIES"] === "1";

const files = SYSTEM.flatMap((directory) =>
  readdirSync(join(import.meta.dirname, "test", directory), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".test.ts"))
    .map((path) => `test/${directory}/${path}`),
);
/** Files that share an api, a worker or a world of their process. */
const SHARING = files.filter((path) => /useShared(Api|World)\(/.test(readFileSync(path, "utf8")));

/**
 * `unit` and `machine` need only Node. The others share one PostgreSQL, one Temporal and one build
 * (test/support/global-setup.ts); `promises` also shares a deployment. `npm test` runs these three, `npm run test:all`
 * every project but `cluster`.
 */
export default defineConfig({
  test: {
    pool: "forks",
    // More than the cores that we promise times for: many files mostly wait.
    maxWorkers: 3,
    // One process runs many files and imports the application once. A file restores what it changes in its process.
    isolate: false,
    // Individual waits end before. Files that need longer say so (test/support/limits.ts).
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 60_000,
    // Each project transforms every module by itself. It finds here, by their content, what another project or run did.
    experimental: {
      fsModuleCache: true,
      fsModuleCachePath: join(import.meta.dirname, ".signet", "test-modules"),
    },
    sequence: { sequencer: LongAmongFirst },
    setupFiles: ["./test/support/seed.ts"],
    reporters: ["default", "./test/support/run-summary.ts"],
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          testTimeout: PROPERTIES_TIMEOUT_MS,
          setupFiles: [RESTORED, "./test/support/without-machine.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "machine",
          include: ["test/machine/**/*.test.ts"],
          testTimeout: PROPERTIES_TIMEOUT_MS,
          setupFiles: [RESTORED],
        },
      },
      {
        extends: true,
        test: {
          name: "promises",
          include: ["test/promises/**/*.test.ts"],
          globalSetup: ["./test/support/promises-setup.ts"],
          setupFiles: FAILURES,
        },
      },
      {
        extends: true,
        test: {
          name: "system",
          exclude: SHARING,
          include: [
            ...SYSTEM.map((directory) => `test/${directory}/**/*.test.ts`),
            ...(RECORDING ? ["test/replay/record.ts"] : []),
          ],
          globalSetup: SERVERS,
          setupFiles: FAILURES,
        },
      },
      {
        extends: true,
        test: {
          name: "shared",
          include: SHARING,
          globalSetup: SERVERS,
          setupFiles: FAILURES,
        },
      },
      {
        extends: true,
        test: {
          name: "containers",
          include: ["test/containers/**/*.test.ts"],
          // Each file has a stack of its own, of one name and with the same ports.
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "cluster",
          include: ["test/cluster/**/*.test.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "portal",
          include: ["test/browser/**/*.test.ts"],
          globalSetup: SERVERS,
          setupFiles: FAILURES,
        },
      },
    ],
  },
});

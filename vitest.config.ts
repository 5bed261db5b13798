import { defineConfig } from "vitest/config";

/** `unit` needs only Node; `system` shares one PostgreSQL and one Temporal (test/support/global-setup.ts). */
export default defineConfig({
  test: {
    pool: "forks",
    maxWorkers: 2,
    // A hook may start a worker process or wait for a build. Individual waits have shorter timeouts.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    teardownTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["test/unit/**/*.test.ts"] },
      },
      {
        extends: true,
        test: {
          name: "system",
          include: ["integration", "workflows", "replay", "conformance", "e2e", "chaos", "upgrade"].map(
            (directory) => `test/${directory}/**/*.test.ts`,
          ),
          globalSetup: ["test/support/global-setup.ts"],
        },
      },
    ],
  },
});

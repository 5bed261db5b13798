import { defineConfig } from "vitest/config";

/** The portal in a real browser (`npm run test:portal`): like the system tests, in a separate run. */
export default defineConfig({
  test: {
    name: "portal",
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    teardownTimeout: 60_000,
    include: ["test/browser/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
  },
});

/**
 * Vitest's set-up before each test file: property tests try the same cases in every run, so that a failure means that
 * the change is wrong. `SIGNET_TEST_SEED` chooses others, and `npm run test:flaky` does so for each run.
 */
import * as fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env["SIGNET_TEST_SEED"] ?? 1) });

import { expect, test } from "vitest";
import { CHECKED_SDK_VERSIONS, isPatched, reportUnknownSdk } from "#temporal/sdk-patches.ts";
import { createLogger } from "#observability/logger.ts";

const ON = { temporalSdkPatches: "on" } as const;
const OFF = { temporalSdkPatches: "off" } as const;

function reported(...[config, installed]: [typeof ON | typeof OFF, string[]?]): string {
  const lines: string[] = [];
  const log = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  reportUnknownSdk(config, log, installed);
  return lines.join("");
}

test("the installed SDK is one that the patches were checked with", () => {
  // After an update: run test/integration/temporal/sdk-patches.test.ts with its version in the list, and read what the
  // SDK changed in worker/src/workflow, client/src/connection.ts and activity/src (docs/decisions/0007).
  expect(isPatched(ON), `the patches are for ${CHECKED_SDK_VERSIONS.join(", ")}`).toBe(true);
  expect(reported(ON)).toBe("");
});

test("an unknown version runs without patches, and that is said", () => {
  expect(isPatched(ON, [...CHECKED_SDK_VERSIONS, "1.99.0"])).toBe(false);
  expect(JSON.parse(reported(ON, ["1.99.0"]))).toMatchObject({
    level: "warn",
    installed: ["1.99.0"],
    checked: CHECKED_SDK_VERSIONS,
    msg: expect.stringMatching(/runs without them .* SIGNET_TEMPORAL_SDK_PATCHES=off accepts that/),
  });
});

test("the setting turns them off, silently", () => {
  expect(isPatched(OFF)).toBe(false);
  expect(reported(OFF, ["1.99.0"])).toBe("");
});

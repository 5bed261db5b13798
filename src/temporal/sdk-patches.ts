/**
 * Whether this process replaces parts of Temporal's SDK (docs/decisions/0007): by setting, and only in a version whose
 * internals were checked. `test/integration/temporal/sdk-patches.test.ts` checks them.
 */
import { createRequire } from "node:module";
import type { Logger } from "pino";
import type { Config } from "#config/config.ts";

/** Versions of the SDK that the patches fit. */
export const CHECKED_SDK_VERSIONS: readonly string[] = ["1.24.0"];

/** Packages with patched parts. */
const PACKAGES = ["activity", "client", "worker"];

function installedVersions(): readonly string[] {
  const require = createRequire(import.meta.url);
  return [
    ...new Set(
      PACKAGES.map(
        (name) => (require(`@temporalio/${name}/package.json`) as { readonly version: string }).version,
      ),
    ),
  ];
}

type Switch = Pick<Config, "temporalSdkPatches">;

/** Whether to patch the SDK. */
export function isPatched({ temporalSdkPatches }: Switch, installed = installedVersions()): boolean {
  return temporalSdkPatches === "on" && installed.every((version) => CHECKED_SDK_VERSIONS.includes(version));
}

/** Logs it if the SDK is of a version that the patches were not checked with. */
export function reportUnknownSdk(config: Switch, log: Logger, installed = installedVersions()): void {
  if (config.temporalSdkPatches === "on" && !isPatched(config, installed)) {
    log.warn(
      { installed, checked: CHECKED_SDK_VERSIONS },
      "Temporal's SDK is of another version than its patches were checked with, so it runs without them and needs more CPU; SIGNET_TEMPORAL_SDK_PATCHES=off accepts that",
    );
  }
}

/** Builds the Temporal CLI from its Go module if a Go toolchain exists. */
import { goInstall, type GoInstallOptions } from "./go-install.ts";

const MODULE = "github.com/temporalio/cli/cmd/temporal";

export interface BuildOptions extends Omit<GoInstallOptions, "packages" | "what"> {
  readonly version: string;
}

/**
 * Builds the CLI with `go install` and leaves it as `temporal`.
 *
 * @throws Error with the end of Go's output
 */
export async function buildTemporal({ version, ...options }: BuildOptions): Promise<void> {
  options.log(
    `building the Temporal CLI ${version} with go install; the first time this takes about 4 minutes`,
  );
  await goInstall({ ...options, packages: [`${MODULE}@v${version}`], what: "the Temporal CLI" });
}

/** Builds the Temporal CLI from its Go module if a Go toolchain exists. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { goInstall, type GoInstallOptions } from "./go-install.ts";

const MODULE = "github.com/temporalio/cli";
/**
 * The SQLite driver that the CLI requires (1.34) loses a statement when a call is cancelled at the wrong moment. After
 * that, the server answers every call with "interrupted (9)" until it restarts. 1.51 closes the statement.
 */
const SQLITE = "modernc.org/sqlite v1.51.0";

export interface BuildOptions extends Omit<GoInstallOptions, "args" | "what"> {
  readonly version: string;
}

/**
 * Builds the CLI with `go install` and leaves it as `temporal`.
 *
 * @throws Error with the end of Go's output
 */
export async function buildTemporal({ version, ...options }: BuildOptions): Promise<void> {
  options.progress(`building the Temporal CLI ${version} with Go; the first time this takes about 4 minutes`);
  // Only a module of its own can require a newer driver than the CLI does.
  const required = [`${MODULE} v${version}`, SQLITE].map((line) => `require ${line}\n`).join("");
  await writeFile(join(options.directory, "go.mod"), `module build\n\ngo 1.25.0\n\n${required}`);
  await goInstall({ ...options, args: ["-mod=mod", `${MODULE}/cmd/temporal`], what: "the Temporal CLI" });
}

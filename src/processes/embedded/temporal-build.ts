/** Builds the Temporal CLI from its Go module if a Go toolchain exists. */
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { goInstall, type GoInstallOptions } from "./go-install.ts";

const run = promisify(execFile);

/**
 * The newest CLI whose module Go can build by version: later ones need a module that only their repository has. The
 * server and the UI are those of the official release, with the SQLite driver that survives cancelled calls.
 */
const CLI = ["github.com/temporalio/cli", "1.5.1"] as const;
const REQUIRED = [
  CLI,
  ["go.temporal.io/server", "1.32.0"],
  ["github.com/temporalio/ui-server/v2", "2.54.1"],
] as const;
/** What that server has moved or removed since. */
const CHANGES: readonly (readonly [file: string, from: string, to: string])[] = [
  [
    "temporalcli/devserver/server.go",
    '"go.temporal.io/server/components/callbacks"',
    'callbacks "go.temporal.io/server/chasm/lib/callback"',
  ],
  ["temporalcli/devserver/server.go", "dynamicconfig.Key(k)", "dynamicconfig.MakeKey(k)"],
  ["temporalcli/commands.worker.go", "info.GetProcessKey()", '""'],
];

export type BuildOptions = Omit<GoInstallOptions, "args" | "what">;

/** Copies the CLI's source, with the changes, to `cli` in the directory. */
async function copySource({ go, directory, environment, signal }: BuildOptions): Promise<void> {
  const [module, version] = CLI;
  const { stdout } = await run(go, ["mod", "download", "-json", `${module}@v${version}`], {
    cwd: directory,
    env: environment,
    signal,
  });
  const { Dir: source } = JSON.parse(stdout) as { readonly Dir: string };
  const copy = join(directory, "cli");
  // Go's cache is read-only, so a copy with its modes could be neither changed nor removed.
  for (const entry of await readdir(source, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) {
      const target = join(copy, relative(source, entry.parentPath));
      await mkdir(target, { recursive: true });
      await writeFile(join(target, entry.name), await readFile(join(entry.parentPath, entry.name)));
    }
  }
  for (const [file, from, to] of CHANGES) {
    const path = join(copy, file);
    await writeFile(path, (await readFile(path, "utf8")).replace(from, to));
  }
}

/**
 * Builds the CLI with `go install` and leaves it as `temporal`.
 *
 * @throws Error with the end of Go's output
 */
export async function buildTemporal(options: BuildOptions): Promise<void> {
  const [module, version] = CLI;
  options.progress(`building the Temporal CLI ${version} with Go; the first time this takes about 4 minutes`);
  await copySource(options);
  const lines = [
    "module build\n\ngo 1.26.0\n",
    ...REQUIRED.map(([name, at]) => `require ${name} v${at}`),
    `replace ${module} => ./cli\n`,
  ];
  await writeFile(join(options.directory, "go.mod"), lines.join("\n"));
  await goInstall({ ...options, args: ["-mod=mod", `${module}/cmd/temporal`], what: "the Temporal CLI" });
}

/** Programs from Go modules, for the chart and its tests: as installed, or built once with Go. */
import { execFile } from "node:child_process";
import { access, mkdir } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { homeDirectory } from "#config/home-directory.ts";
import { QUICK_BUILD } from "#processes/embedded/go-install.ts";

export const run = promisify(execFile);
/** Helm's sources are 100 MB with what they need. */
const BUILD_MS = 900_000;

export const HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0";

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

/**
 * Returns the path of a program: on PATH, or in the cache, where it is built if necessary.
 *
 * @param source `module/cmd/program@version`
 * @throws if it is not installed, and Go or the module proxy is missing
 */
export async function goProgram(source: string): Promise<string> {
  const [path = "", version = ""] = source.split("@");
  const name = path.slice(path.lastIndexOf("/") + 1);
  const cache = join(process.env["SIGNET_CACHE"] ?? join(homeDirectory(), ".cache", "signet"), "go", version);
  const directories = [...(process.env["PATH"] ?? "").split(delimiter), cache];
  for (const directory of directories) {
    if (await exists(join(directory, name))) {
      return join(directory, name);
    }
  }
  console.warn(`building ${source} once, which takes minutes`);
  await mkdir(cache, { recursive: true });
  await run("go", ["install", ...Object.values(QUICK_BUILD), source], {
    env: { ...process.env, GOBIN: cache },
    timeout: BUILD_MS,
  });
  return join(cache, name);
}

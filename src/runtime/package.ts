/** The package of this program, and the names of the packages that `npm run packages` makes. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The scope of all packages. After a change, run `npm run docs`: it writes the names in documents, examples and SDKs. */
const SCOPE = "@signet-delivery";

/** Names of the published packages. */
export const PACKAGES = {
  client: `${SCOPE}/client`,
  cli: `${SCOPE}/cli`,
  server: `${SCOPE}/server`,
} as const;

/** The module of the Go SDK, whose owner is the scope's. */
export const GO_MODULE = `github.com/${SCOPE.slice(1)}/signet/sdk/go`;

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly engines?: { readonly node?: string };
}

function read(path: string): Manifest {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Manifest;
  } catch {
    return {};
  }
}

/** Finds package.json, which lies above the sources, above `dist` and above a bundle. The one in `dist` has no name. */
function find(directory: string): Manifest {
  const manifest = read(join(directory, "package.json"));
  const above = dirname(directory);
  return manifest.name !== undefined || above === directory ? manifest : find(above);
}

const { name = "signet", version = "unknown", engines } = find(import.meta.dirname);

/** A version such as `0.2.0`; `unknown` without a package.json. */
export const VERSION = version;

/** How npx runs this command line: by its package's name, or by the command's name in a clone. */
export const NPX_SIGNET = `npx ${name}`;

/** Returns why a version of Node cannot run the service; undefined if it can. @param needed as in `engines`: `>=22.19` */
export function whyNodeIsTooOld(running: string, needed = engines?.node ?? ">=0.0"): string | undefined {
  const [major = 0, minor = 0] = running.split(".").map(Number);
  const [oldest = 0, oldestMinor = 0] = needed.replace(">=", "").split(".").map(Number);
  const isTooOld = major < oldest || (major === oldest && minor < oldestMinor);
  return isTooOld ? `Node ${needed} is needed; this is ${running}` : undefined;
}

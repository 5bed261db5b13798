/** The version of this build, from package.json, which lies above the sources and above `dist` alike. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

function find(directory: string): string {
  try {
    const { version } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8")) as {
      version?: string;
    };
    return version ?? "unknown";
  } catch {
    const above = dirname(directory);
    return above === directory ? "unknown" : find(above);
  }
}

/** A version such as `0.2.0`; `unknown` without a package.json. */
export const VERSION = find(import.meta.dirname);

/** Bundles a script of the portal for browsers: at start from source, otherwise in the build. */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type * as Esbuild from "esbuild";

/** Each is browser/<name>.ts with what it imports. */
export const SCRIPTS = ["portal.js", "compliance.js", "guide.js"] as const;

export type ScriptName = (typeof SCRIPTS)[number];

const bundled = new Map<ScriptName, Buffer>();

/**
 * Returns a script as browsers run it.
 *
 * @param sources the directory with the script's source
 */
export function bundleScript(name: ScriptName, sources = new URL("./browser/", import.meta.url)): Buffer {
  const known = bundled.get(name);
  if (known !== undefined) {
    return known;
  }
  // Required here, and found beside the sources, because production has no esbuild.
  const { buildSync } = createRequire(sources)("esbuild") as typeof Esbuild;
  const { outputFiles } = buildSync({
    entryPoints: [fileURLToPath(new URL(name.replace(".js", ".ts"), sources))],
    bundle: true,
    minify: true,
    charset: "utf8",
    format: "iife",
    target: "es2022",
    write: false,
  });
  const script = Buffer.from(outputFiles[0]?.contents ?? []);
  bundled.set(name, script);
  return script;
}

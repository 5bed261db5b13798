/** Compiles and bundles the sources. A bundle loads in a tenth of the time that compiling its files takes. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** CommonJS code in a bundle of modules loads Node's modules by this function. */
const REQUIRE =
  'import { createRequire as requireIn } from "node:module"; const require = requireIn(import.meta.url);';

/** @satisfies {import("esbuild").BuildOptions} */
const FORM = /** @type {const} */ ({
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node22.19",
  metafile: true,
  logLevel: "error",
});

/**
 * Modules find files beside themselves, so in a bundle they keep their places.
 *
 * @param {(path: string) => { url: string, directory: string }} placeOf expressions for a module's URL and directory
 * @returns {import("esbuild").Plugin}
 */
function keepPlaces(placeOf) {
  return {
    name: "keep-places",
    setup: (build) => {
      build.onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path }) => {
        const { url, directory } = placeOf(path);
        const contents = readFileSync(path, "utf8")
          .replaceAll("import.meta.url", url)
          .replaceAll("import.meta.dirname", directory);
        return { contents, loader: "ts" };
      });
    },
  };
}

/**
 * Bundles a program into `directory/main.js` and chunks beside it. Packages stay outside, apart from the given ones.
 *
 * @param {object} options
 * @param {string} options.root the clone
 * @param {string} options.entry path of the program below `root`
 * @param {string} options.directory absolute path
 * @param {readonly string[]} [options.packages] packages to bundle
 * @param {boolean} [options.built] whether the bundle lies in `dist`, beside the compiled sources
 * @returns {Promise<string[]>} the bundled files, below `root`
 */
export async function bundleProgram({ root, entry, directory, packages = [], built = false }) {
  const { build } = await import("esbuild");
  const { dependencies = {} } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  // Source maps name their sources from this place, and so do the hashes in the names of the chunks.
  const place = built ? join(root, "dist", basename(directory)) : directory;
  const { metafile, outputFiles = [] } = await build({
    absWorkingDir: root,
    entryPoints: { main: join(root, entry) },
    outdir: place,
    write: !built,
    ...FORM,
    ...(packages.length === 0
      ? { packages: "external" }
      : {
          external: Object.keys(dependencies).filter((name) => !packages.includes(name)),
          banner: { js: REQUIRE },
        }),
    sourcemap: "linked",
    sourcesContent: !built,
    plugins: [
      keepPlaces((path) => {
        if (!built) {
          const directoryOf = JSON.stringify(dirname(path));
          return { url: JSON.stringify(pathToFileURL(path).href), directory: directoryOf };
        }
        const compiled = ["..", ...relative(root, path).split(sep)].join("/").replace(/\.ts$/, ".js");
        const url = `new URL(${JSON.stringify(compiled)}, import.meta.url)`;
        return { url: `${url}.href`, directory: `decodeURIComponent(new URL(".", ${url}).pathname)` };
      }),
    ],
  });
  for (const { path, contents } of outputFiles) {
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, relative(place, path)), contents);
  }
  return Object.keys(metafile.inputs).filter((path) => existsSync(join(root, path)));
}

/**
 * Compiles a TypeScript project of the clone.
 *
 * @param {string} root the clone
 * @param {string} project path of its tsconfig below `root`
 * @param {string} directory absolute path of the output
 * @param {readonly string[]} [options] further options of tsc
 */
export function compile(root, project, directory, options = []) {
  const tsc = fileURLToPath(import.meta.resolve("typescript/package.json")).replace(
    /package\.json$/,
    "bin/tsc",
  );
  execFileSync(process.execPath, [tsc, "-p", join(root, project), "--outDir", directory, ...options], {
    stdio: "inherit",
  });
}

/** The command line without the service: it starts with every command, so nothing else may be loaded. */
export const COMMAND_LINE = { entry: "src/processes/commands.ts", packages: ["commander"] };

/**
 * Bundles a program with its packages into `directory/main.js` and chunks beside it. Its modules take the bundle's
 * place.
 *
 * @param {object} options
 * @param {string} options.root the clone
 * @param {string} options.entry path of the program below `root`
 * @param {string} options.directory absolute path
 * @param {readonly string[]} options.external packages to leave outside
 * @returns {Promise<string[]>} directories of the bundled packages, below `root`
 */
export async function bundleStandalone({ root, entry, directory, external }) {
  const { build } = await import("esbuild");
  const { metafile } = await build({
    ...FORM,
    absWorkingDir: root,
    entryPoints: { main: join(root, entry) },
    outdir: directory,
    external: [...external],
    banner: { js: REQUIRE },
    // The licences go into a file of their own.
    legalComments: "none",
  });
  const packages = Object.keys(metafile.inputs).flatMap(
    (path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [],
  );
  return [...new Set(packages)].sort();
}

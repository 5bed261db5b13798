/**
 * Reduces node_modules to what the image runs (`node src/processes/image.mjs [directory] [architecture]`), after
 * `npm prune --omit=dev`. The build has bundled the workflows, so the SDK's bundler goes. It is a third of the packages,
 * which the SDK would load at every start. Of the SDK's native libraries, 35 MB each, one platform's remains.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const WORKER = "node_modules/@temporalio/worker";
const NATIVE_LIBRARIES = "node_modules/@temporalio/core-bridge/releases";
/** Its sources in Rust. */
const NATIVE_SOURCES = "node_modules/@temporalio/core-bridge/sdk-core";
/** Dependencies of {@link WORKER} that only its bundler needs. */
const BUNDLER = ["@swc/core", "memfs", "source-map-loader", "swc-loader", "unionfs", "webpack"];
/** Native libraries by architecture, in Docker's words and in Node's. */
const LIBRARIES = new Map([
  ["amd64", "x86_64-unknown-linux-gnu"],
  ["x64", "x86_64-unknown-linux-gnu"],
  ["arm64", "aarch64-unknown-linux-gnu"],
]);

/** Takes the place of the SDK's bundler. Workers without a workflow bundle fail with this error. */
const NO_BUNDLER = `"use strict";
const refuse = () => { throw new Error("this image has no bundler: workers need the workflow bundle of the build"); };
exports.bundleWorkflowCode = refuse;
exports.WorkflowCodeBundler = class { constructor() { refuse(); } };
exports.defaultWorkflowInterceptorModules = [require.resolve("../workflow-log-interceptor")];
`;

/**
 * @typedef {object} Package an entry of package-lock.json
 * @property {Record<string, string>} [dependencies]
 * @property {Record<string, string>} [optionalDependencies]
 * @property {Record<string, string>} [peerDependencies]
 * @property {string[]} [os]
 * @property {string[]} [cpu]
 */

/**
 * Finds a package as Node does: beside the package that needs it, then above.
 *
 * @param {Record<string, Package>} packages @param {string} from @param {string} name
 */
function find(packages, from, name) {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    const path = join(at, "node_modules", name);
    if (packages[path] !== undefined || at === "") {
      return packages[path] === undefined ? undefined : path;
    }
  }
}

/**
 * Returns the packages that the image needs, as paths below the root.
 *
 * @param {Record<string, Package>} packages those of package-lock.json
 * @param {Record<string, string>} dependencies those of package.json
 * @returns {Set<string>}
 */
export function packagesOfImage(packages, dependencies) {
  /** @type {Set<string>} */
  const needed = new Set();
  /** @param {string} from @param {Package} manifest */
  const visit = (from, manifest) => {
    const wanted = {
      ...manifest.dependencies,
      ...manifest.optionalDependencies,
      ...manifest.peerDependencies,
    };
    for (const name of Object.keys(wanted)) {
      const path = from === WORKER && BUNDLER.includes(name) ? undefined : find(packages, from, name);
      if (path !== undefined && !needed.has(path)) {
        needed.add(path);
        visit(path, packages[path] ?? {});
      }
    }
  };
  visit("", { dependencies });
  return needed;
}

/** @param {string} root */
function removePackages(root) {
  /** @param {string} path */
  const readJson = (path) => JSON.parse(readFileSync(join(root, path), "utf8"));
  const record = join("node_modules", ".package-lock.json");
  const { packages } = readJson(record);
  const needed = packagesOfImage(packages, readJson("package.json").dependencies);
  const bound = [...needed].filter(
    (path) => packages[path].os !== undefined || packages[path].cpu !== undefined,
  );
  if (bound.length > 0) {
    throw new Error(`the image is built on one platform for all, but these are of one: ${bound.join(", ")}`);
  }
  for (const path of Object.keys(packages).filter((path) => !needed.has(path))) {
    rmSync(join(root, path), { recursive: true, force: true });
  }
  const modules = join(root, "node_modules");
  for (const scope of readdirSync(modules).filter((name) => name.startsWith("@"))) {
    if (readdirSync(join(modules, scope)).length === 0) {
      rmSync(join(modules, scope), { recursive: true });
    }
  }
  // Both name packages that are gone.
  for (const path of [record, join("node_modules", ".bin")]) {
    rmSync(join(root, path), { recursive: true, force: true });
  }
}

/** @param {string} root */
function removeBundler(root) {
  const library = join(root, WORKER, "lib");
  const bundler = join(library, "workflow", "bundler.js");
  if (!existsSync(bundler)) {
    throw new Error(`${bundler} is missing: this version of the SDK has its bundler elsewhere`);
  }
  for (const name of readdirSync(library, { recursive: true, encoding: "utf8" })) {
    if (name.endsWith(".js")) {
      for (const [, used = ""] of readFileSync(join(library, name), "utf8").matchAll(/\bbundler_1\.(\w+)/g)) {
        if (!NO_BUNDLER.includes(`exports.${used} =`)) {
          throw new Error(
            `${name} of the SDK's worker needs ${used} of the bundler, which the image leaves out`,
          );
        }
      }
    }
  }
  writeFileSync(bundler, NO_BUNDLER);
}

/** @param {string} root @param {string} architecture */
function removeNativeLibraries(root, architecture) {
  const kept = LIBRARIES.get(architecture);
  const libraries = readdirSync(join(root, NATIVE_LIBRARIES));
  if (kept === undefined || !libraries.includes(kept)) {
    throw new Error(`Temporal has no native library for ${architecture}; it has ${libraries.join(", ")}`);
  }
  for (const name of libraries.filter((name) => name !== kept)) {
    rmSync(join(root, NATIVE_LIBRARIES, name), { recursive: true });
  }
}

/**
 * Removes what Node never loads from packages: types, source maps, texts, and the native library's sources.
 *
 * @param {string} root
 */
function removeUnused(root) {
  const modules = join(root, "node_modules");
  for (const name of readdirSync(modules, { recursive: true, encoding: "utf8" })) {
    const licence = /(?:^|\/)(?:licen[cs]e|notice|copying)[^/]*$/i.test(name);
    if (/\.(?:[cm]?ts|map|md|markdown|flow|rs|toml)$/.test(name) && !licence) {
      rmSync(join(modules, name), { recursive: true });
    }
  }
  rmSync(join(root, NATIVE_SOURCES), { recursive: true, force: true });
}

if (process.argv[1] !== undefined && pathToFileURL(process.argv[1]).href === import.meta.url) {
  const root = resolve(process.argv[2] ?? ".");
  removeNativeLibraries(root, process.argv[3] || process.arch);
  removeBundler(root);
  removePackages(root);
  removeUnused(root);
}

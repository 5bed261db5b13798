/**
 * The files of a release, from a commit alone (`npm run release`): the npm packages, the Python wheel, the Go module, the
 * image's build context, the Helm chart, a list of components, release notes, checksums and, with a key, signed
 * provenance. The same commit gives the same bytes in any directory. It needs git, npm and Python's hatchling, and no
 * network.
 *
 *   node src/processes/release.mjs [--out directory] [--key private.pem]
 *   node src/processes/release.mjs verify directory --key public.pem
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { packagesOfImage } from "./image.mjs";
import { PROVENANCE, signProvenance, verifyRelease } from "./provenance.mjs";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const CHART = join("deploy", "helm", "signet");
const PACKAGES = ["client", "cli", "server"];
const PYTHON = join("sdk", "python");
const GO = join("sdk", "go");
/** Another version could write other bytes. */
const HATCHLING = "1.33.0";
const SUMS = "SHA256SUMS";
const OUTPUT_MAX = 256 * 1_048_576;

/** An error for people: its message alone is printed. */
class ReleaseError extends Error {}

/** @param {string} name */
const read = (name) => readFileSync(join(ROOT, name), "utf8");

/** @param {string} program @param {readonly string[]} args @param {string} [cwd] @param {NodeJS.ProcessEnv} [more] */
function run(program, args, cwd = ROOT, more = {}) {
  const env = { ...process.env, ...more };
  return execFileSync(program, args, {
    cwd,
    env,
    maxBuffer: OUTPUT_MAX,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** @param {readonly string[]} args */
const git = (...args) => run("git", args).toString().trimEnd();

/** @returns {{ commit: string, seconds: number }} @throws {ReleaseError} if the tree differs from the commit */
function readCommit() {
  const changes = git("status", "--porcelain");
  if (changes !== "") {
    throw new ReleaseError(`a release is made from a commit; commit or remove these changes:\n${changes}`);
  }
  return { commit: git("rev-parse", "HEAD"), seconds: Number(git("log", "-1", "--format=%ct")) };
}

/**
 * Returns committed files as a compressed archive: sorted, owned by root, with the commit's time.
 *
 * @param {string} prefix of each name @param {readonly string[]} paths below `directory` @param {string} [directory]
 */
function archive(prefix, paths, directory = ".") {
  const args = [
    "-c",
    "tar.umask=0022",
    "archive",
    "--format=tar",
    `--prefix=${prefix}`,
    "HEAD",
    "--",
    ...paths,
  ];
  return gzipSync(run("git", args, join(ROOT, directory)), { level: 9 });
}

/** Packs dist/packages. @param {string} out */
function packPackages(out) {
  for (const name of PACKAGES) {
    const args = ["pack", "--ignore-scripts", "--silent", "--pack-destination", out];
    run("npm", args, join(ROOT, "dist", "packages", name));
  }
}

/** @throws {ReleaseError} if Python cannot build the wheel */
function requireHatchling() {
  let found = "no python3";
  try {
    const program =
      "import importlib.util as u, importlib.metadata as m; print(u.find_spec('hatchling') and m.version('hatchling'))";
    found = run("python3", ["-c", program]).toString().trim();
  } catch {
    // The error below says what is needed.
  }
  if (found !== HATCHLING) {
    throw new ReleaseError(
      `the Python wheel needs hatchling ${HATCHLING} (${found}): pip install hatchling==${HATCHLING}`,
    );
  }
}

/** Builds the Python SDK's wheel. @param {string} out @param {number} seconds time of the commit */
function buildWheel(out, seconds) {
  const args = ["-m", "hatchling", "build", "--target", "wheel", "--directory", out];
  run("python3", args, join(ROOT, PYTHON), { SOURCE_DATE_EPOCH: String(seconds) });
}

/**
 * Packs the Go SDK as a module proxy serves it: each name below the module and its version.
 *
 * @param {string} out @param {string} version
 */
function packGoModule(out, version) {
  const [, module] = /^module (\S+)$/m.exec(read(join(GO, "go.mod"))) ?? [];
  const file = join(out, `signet-go-${version}.zip`);
  const args = [
    "archive",
    "--format=zip",
    `--prefix=${module}@v${version}/`,
    `--output=${file}`,
    "HEAD",
    "--",
    ".",
  ];
  // Times in a zip file are local.
  run("git", args, join(ROOT, GO), { TZ: "UTC" });
}

/** The paths that .dockerignore admits. */
function contextPaths() {
  const admitted = read(".dockerignore")
    .split("\n")
    .flatMap((line) => (line.startsWith("!") ? [line.slice(1)] : []));
  return ["Dockerfile", ...admitted];
}

/**
 * Packs the chart as `helm package` does.
 *
 * @param {string} out @param {string} version of the service
 */
function packChart(out, version) {
  const file = join(CHART, "Chart.yaml");
  /** @param {string} key */
  const valueOf = (key) => new RegExp(`^${key}: *["']?([^"'\\s#]+)`, "m").exec(read(file))?.[1];
  if (valueOf("appVersion") !== version) {
    throw new ReleaseError(
      `appVersion in ${file} is ${valueOf("appVersion")}, but the version is ${version}`,
    );
  }
  const [name, chartVersion] = [valueOf("name"), valueOf("version")];
  writeFileSync(join(out, `${name}-chart-${chartVersion}.tgz`), archive(`${name}/`, ["."], CHART));
}

/**
 * Writes the production dependencies as CycloneDX, by `npm sbom`, with a serial number and a time that do not change.
 * Those that only the server's npm package installs have the scope `optional`: the image leaves them out. All
 * dependencies are read, because `npm sbom --omit dev` also omits what development dependencies need too, such as pg.
 *
 * @param {string} path @param {number} seconds time of the commit
 */
function writeComponents(path, seconds) {
  const place = mkdtempSync(join(tmpdir(), "signet-components-"));
  // npm names the application after its directory.
  const directory = join(place, "signet");
  mkdirSync(directory);
  for (const name of ["package.json", "package-lock.json"]) {
    copyFileSync(join(ROOT, name), join(directory, name));
  }
  const args = ["--sbom-format", "cyclonedx", "--sbom-type", "application", "--package-lock-only"];
  const document = JSON.parse(run("npm", ["sbom", ...args], directory).toString());
  rmSync(place, { recursive: true });
  const { packages } = JSON.parse(read("package-lock.json"));
  /** @param {Iterable<string>} paths */
  const refsOf = (paths) =>
    new Set([...paths].map((at) => `${at.replace(/^.*node_modules\//, "")}@${packages[at].version}`));
  const isProduction = (/** @type {string} */ at) =>
    at !== "" && packages[at].dev !== true && packages[at].devOptional !== true;
  const production = refsOf(Object.keys(packages).filter(isProduction));
  const inImage = refsOf(packagesOfImage(packages, packages[""].dependencies));
  /** @type {{ "bom-ref": string }[]} */
  const components = document.components;
  /** @type {{ ref: string, dependsOn: string[] }[]} */
  const edges = document.dependencies;
  document.components = components
    .filter((component) => production.has(component["bom-ref"]))
    .map((component) => ({
      ...component,
      scope: inImage.has(component["bom-ref"]) ? "required" : "optional",
    }));
  document.dependencies = edges
    .filter(({ ref }) => production.has(ref) || ref === document.metadata.component["bom-ref"])
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((name) => production.has(name)) }));
  document.metadata.timestamp = new Date(seconds * 1_000).toISOString();
  delete document.serialNumber;
  const digest = createHash("sha256").update(JSON.stringify(document)).digest("hex");
  // A UUID of version 8 (RFC 9562), whose bits may come from a digest.
  const parts = [
    digest.slice(0, 8),
    digest.slice(8, 12),
    `8${digest.slice(13, 16)}`,
    `8${digest.slice(17, 20)}`,
  ];
  document.serialNumber = `urn:uuid:${[...parts, digest.slice(20, 32)].join("-")}`;
  writeFileSync(path, `${JSON.stringify(document, null, 2)}\n`);
}

/** Returns the changelog's section, without empty parts; undefined if it has no entries. @param {string} name */
function notesOf(name) {
  const sections = read("CHANGELOG.md").split(/^## /m);
  const section = sections.find((text) => text.startsWith(`[${name}]`));
  return section !== undefined && /^- /m.test(section) ? `## ${section.trimEnd()}\n` : undefined;
}

/** @param {string} version */
function releaseNotes(version) {
  const unreleased = notesOf("Unreleased");
  if (unreleased !== undefined) {
    process.stderr.write(
      `release: CHANGELOG.md has unreleased entries; close them under ${version} to publish\n`,
    );
  }
  const notes = unreleased ?? notesOf(version);
  if (notes === undefined) {
    throw new ReleaseError(`CHANGELOG.md has no section ${version}`);
  }
  return notes;
}

/** @param {string} out @param {string | undefined} keyFile */
function release(out, keyFile) {
  const { version } = JSON.parse(read("package.json"));
  const key = keyFile === undefined ? undefined : readFileSync(keyFile, "utf8");
  const { commit, seconds } = readCommit();
  requireHatchling();
  // Files of an earlier release would be signed with this one.
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  packPackages(out);
  buildWheel(out, seconds);
  packGoModule(out, version);
  writeFileSync(join(out, `signet-${version}-image-context.tar.gz`), archive("", contextPaths()));
  packChart(out, version);
  writeComponents(join(out, `signet-${version}.cdx.json`), seconds);
  writeFileSync(join(out, "RELEASE-NOTES.md"), releaseNotes(version));
  const lines = readdirSync(out)
    .sort()
    .map(
      (name) =>
        `${createHash("sha256")
          .update(readFileSync(join(out, name)))
          .digest("hex")}  ${name}\n`,
    );
  writeFileSync(join(out, SUMS), lines.join(""));
  if (key === undefined) {
    process.stderr.write("release: no provenance, because no --key is given\n");
  } else {
    const npm = run("npm", ["--version"]).toString().trim();
    const { name: server } = JSON.parse(read("dist/packages/server/package.json"));
    const buildType = `https://www.npmjs.com/package/${server}#npm-run-release`;
    const build = { buildType, version, commit, npm, lockfile: read("package-lock.json") };
    writeFileSync(join(out, PROVENANCE), signProvenance(out, build, key));
  }
  process.stdout.write(`${readdirSync(out).sort().join("\n")}\n`);
}

function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { out: { type: "string" }, key: { type: "string" } },
  });
  const [command, directory] = positionals;
  if (command === undefined) {
    release(resolve(values.out ?? join(ROOT, "dist", "release")), values.key);
  } else if (command === "verify" && directory !== undefined && values.key !== undefined) {
    const { subjects, version, commit } = verifyRelease(directory, readFileSync(values.key, "utf8"));
    process.stdout.write(
      `${subjects} files of version ${version}, commit ${commit}: signature and digests are right\n`,
    );
  } else {
    throw new ReleaseError(
      "usage: release.mjs [--out directory] [--key private.pem] | verify directory --key public.pem",
    );
  }
}

try {
  main();
} catch (error) {
  process.stderr.write(`release: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

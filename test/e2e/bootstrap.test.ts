/** src/bootstrap.mjs as people and npm call it: installation, commands, `test` and `start`. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chmod, mkdir, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isRunning } from "../../src/processes/embedded/process-identity.ts";
import { type BootstrapProject, createBootstrapProject } from "../support/bootstrap-project.ts";

const run = promisify(execFile);

let project: BootstrapProject;
let directory: string;
const children: ChildProcess[] = [];

async function create(options: { readonly realEsbuild: boolean }): Promise<void> {
  project = await createBootstrapProject(options);
  ({ directory } = project);
}

afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
  }
  await project.remove();
});

describe("dependencies", () => {
  beforeEach(async () => await create({ realEsbuild: false }));

  it("are installed from the lockfile by the first command, which then runs", async () => {
    const { stdout, stderr } = await project.signet("tenant", "list", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ args: ["tenant", "list", "--json"] });
    expect(stderr).toContain("signet: installing dependencies");
    expect(await project.npmCalls()).toEqual([expect.stringMatching(/^ci --include=dev /)]);
  });

  it("are not installed again while the lockfile is unchanged", async () => {
    await project.signet("version");
    const { stderr } = await project.signet("version");
    expect(stderr).toBe("");
    expect(await project.npmCalls()).toHaveLength(1);
  });

  it("are installed again when the lockfile has changed", async () => {
    await project.signet("version");
    await project.lock("1.0.1");
    await project.signet("version");
    expect(await project.npmCalls()).toHaveLength(2);
  });

  it("are left alone when complete, no matter who installed them or how new the lockfile is", async () => {
    await project.signet("version");
    const installed = { packages: { "node_modules/a": { version: "1.0.0" } } };
    await writeFile(join(directory, "node_modules", ".package-lock.json"), JSON.stringify(installed));
    const later = new Date(Date.now() + 60_000);
    await utimes(join(directory, "package-lock.json"), later, later);
    expect((await project.signet("version")).stderr).toBe("");
    expect(await project.npmCalls()).toHaveLength(1);
  });

  it("are not checked without a lockfile, as in npx's cache", async () => {
    await project.signet("version");
    await rm(join(directory, "package-lock.json"));
    await rm(join(directory, "node_modules", ".package-lock.json"));
    await project.signet("version");
    expect(await project.npmCalls()).toHaveLength(1);
  });

  it("are installed again after an interrupted installation", async () => {
    await mkdir(join(directory, "node_modules", "a"), { recursive: true });
    await project.signet("version");
    expect(await project.npmCalls()).toHaveLength(1);
  });

  it("are installed once by several concurrent commands", async () => {
    await writeFile(join(directory, "npm-slow"), "");
    const results = await Promise.all(["a", "b", "c"].map(async (name) => await project.signet(name)));
    expect(results.map(({ stdout }) => (JSON.parse(stdout) as { args: string[] }).args)).toEqual([
      ["a"],
      ["b"],
      ["c"],
    ]);
    expect(await project.npmCalls()).toHaveLength(1);
  });

  it("are installed although a killed installation left its lock", async () => {
    const lockPath = join(directory, ".signet", "install.lock");
    await mkdir(join(directory, ".signet"));
    await writeFile(lockPath, "");
    const earlier = new Date(Date.now() - 60_000);
    await utimes(lockPath, earlier, earlier);
    await project.signet("version");
    expect(await project.npmCalls()).toHaveLength(1);
  });

  it("that cannot be installed end the command with npm's reason, and the next command tries again", async () => {
    await writeFile(join(directory, "npm-fails"), "");
    await expect(project.signet("version")).rejects.toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("npm error registry is away"),
    });
    await rm(join(directory, "npm-fails"));
    await project.signet("version");
    expect(await project.npmCalls()).toHaveLength(2);
  });

  it("of a production image are never touched: the build runs", async () => {
    await mkdir(join(directory, "dist", "src", "processes"), { recursive: true });
    await mkdir(join(directory, "node_modules"));
    await writeFile(
      join(directory, "dist", "src", "processes", "main.js"),
      'console.log("built", process.argv[2])',
    );
    expect((await project.signet("api")).stdout).toBe("built api\n");
    expect(await project.npmCalls()).toEqual([]);
  });
});

describe("the command line's bundle", () => {
  const COMMANDS = "src/processes/commands.ts";

  beforeEach(async () => await create({ realEsbuild: false }));

  it("is made once, and again when one of its files has changed", async () => {
    await project.signet("tenant", "list");
    await project.signet("whoami");
    expect(await project.bundles()).toEqual([COMMANDS]);
    await writeFile(join(directory, COMMANDS), 'console.log("changed", process.argv[2]);');
    expect((await project.signet("whoami")).stdout).toBe("changed whoami\n");
    expect((await project.signet("whoami")).stdout).toBe("changed whoami\n");
    expect(await project.bundles()).toEqual([COMMANDS, COMMANDS]);
  });

  it("stays when another file has changed; commands that run a process have their own bundle", async () => {
    await project.signet("whoami");
    await writeFile(join(directory, "src", "processes", "main.ts"), 'console.log("main", process.argv[2]);');
    await project.signet("whoami");
    expect(await project.bundles()).toEqual([COMMANDS]);
    expect((await project.signet("doctor")).stdout).toBe("main doctor\n");
    expect(await project.bundles()).toEqual([COMMANDS, "src/processes/main.ts"]);
  });

  it("is made again when it is gone", async () => {
    await project.signet("whoami");
    for (const name of await readdir(join(directory, ".signet", "bundles"))) {
      await rm(join(directory, ".signet", "bundles", name), { recursive: true });
    }
    expect(JSON.parse((await project.signet("whoami")).stdout)).toMatchObject({ args: ["whoami"] });
  });
});

describe("a command", () => {
  beforeEach(async () => await create({ realEsbuild: true }));

  it("an old Node is rejected with one line", async () => {
    const old =
      "data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.19.9'}})";
    const refused = run(process.execPath, ["--import", old, project.bootstrap, "version"], {
      env: project.environment(),
    });
    await expect(refused).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^signet: Node 20\.20 or newer is needed; this is 20\.19\.9 .*\n$/),
    });
  });

  it("the command line runs from any directory and through a symlink, as npm creates it for package.json's bin", async () => {
    await chmod(project.bootstrap, 0o755);
    const link = join(directory, "signet");
    await symlink(project.bootstrap, link);
    const { stdout } = await run(link, ["doctor"], { cwd: tmpdir(), env: project.environment() });
    expect(JSON.parse(stdout)).toMatchObject({ args: ["doctor"], environment: null });
  });

  const promises = ["--project", "unit", "--project", "promises"];
  it.each([
    [["test"], ["run", ...promises]],
    [
      ["test", "--outputFile.json=/tmp/x", "-t", "name"],
      ["run", ...promises, "--outputFile.json=/tmp/x", "-t", "name"],
    ],
    [
      ["test", "--project", "unit"],
      ["run", "--project", "unit"],
    ],
    [
      ["test", "test/e2e/start.test.ts"],
      ["run", "test/e2e/start.test.ts"],
    ],
    [
      ["test:all", "--shard", "1/4"],
      ["run", "--shard", "1/4"],
    ],
  ])("%j runs vitest with %j", async (line, vitest) => {
    expect(JSON.parse((await project.signet(...line)).stdout)).toEqual(vitest);
  });
});

describe("`start`", () => {
  beforeEach(async () => await create({ realEsbuild: true }));

  interface Started {
    readonly child: ChildProcess;
    readonly output: () => string;
    readonly server: { args: string[]; environment: string; pid: number };
    readonly exit: Promise<number | null>;
  }

  async function start(extra: Record<string, string> = {}): Promise<Started> {
    await project.signet("version");
    const child = spawn(process.execPath, [project.bootstrap, "start", "--port", "1"], {
      env: project.environment(extra),
    });
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

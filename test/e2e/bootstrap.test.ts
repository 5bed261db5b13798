/** src/bootstrap.mjs as people and npm call it: installation, commands, `test` and `start`. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chmod, mkdir, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isRunning } from "#processes/embedded/process-identity.ts";
import { type BootstrapProject, createBootstrapProject } from "../support/bootstrap-project.ts";
import { allowMinutes } from "../support/limits.ts";

// The real npm installs two versions of Node.
allowMinutes(3);

const run = promisify(execFile);

let project: BootstrapProject;
let directory: string;
const children: ChildProcess[] = [];

/** Makes this Node say that it is older. The Node that the project installs is this one, without it. */
const OLD = `data:text/javascript,${encodeURIComponent(`
  Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } });
`)}`;

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

describe("on a Node that is too old, a command", () => {
  const REASON = `signet: Node 22.19 or newer is needed; this is 20.20.2 (${process.execPath})`;

  const onOld = (...args: readonly string[]): readonly string[] => [
    "--import",
    OLD,
    project.bootstrap,
    ...args,
  ];
  const runOnOld = async (...args: readonly string[]) =>
    await run(process.execPath, onOld(...args), { cwd: directory, env: project.environment() });

  beforeEach(async () => await create({ realEsbuild: false }));

  it("installs a newer one once, and runs on it with the same arguments", async () => {
    const { stdout, stderr } = await runOnOld("tenant", "list", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      args: ["tenant", "list", "--json"],
      node: process.versions.node,
    });
    expect(stderr).toMatch(/^signet: this is Node 20\.20\.2; installing Node \d+\.\d+\.\d+ in .*\n/);
    expect((await runOnOld("whoami")).stderr).toBe("");
    expect(await project.npmCalls()).toEqual([
      expect.stringMatching(/^ci --ignore-scripts /),
      expect.stringMatching(/^ci --include=dev /),
    ]);
  });

  it("passes on its input, its exit code, and the newer Node as the first of PATH", async () => {
    const program = `
      import { execFileSync } from "node:child_process";
      const version = execFileSync("node", ["-p", "process.versions.node"]).toString().trim();
      for await (const chunk of process.stdin) console.log(String(chunk), version, ...process.argv.slice(2));
      process.exitCode = 3;
    `;
    await writeFile(join(directory, "program.mjs"), program);
    const child = spawn(process.execPath, onOld("run", "program.mjs", "--flag"), {
      cwd: directory,
      env: project.environment({ PATH: "/usr/bin:/bin" }),
      stdio: ["pipe", "pipe", "inherit"],
    });
    children.push(child);
    let output = "";
    child.stdout.on("data", (chunk) => (output += String(chunk)));
    child.stdin.end("input");
    expect(await new Promise((resolve) => child.once("close", resolve))).toBe(3);
    expect(output).toBe(`input ${process.versions.node} --flag\n`);
  });

  it("ends with one line and npm's reason when it cannot be installed", async () => {
    await writeFile(join(directory, "npm-fails"), "");
    await expect(runOnOld("start")).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /\nnpm error registry is away\n.* npm cannot install Node \d+\.\d+\.\d+ and gives the reason above\n$/,
      ),
    });
    await rm(join(directory, "npm-fails"));
    expect(JSON.parse((await runOnOld("whoami")).stdout)).toMatchObject({ args: ["whoami"] });
  });

  it("ends with one line in an installed package, which brings no Node", async () => {
    await rm(join(directory, "package-lock.json"));
    await expect(runOnOld("whoami")).rejects.toMatchObject({ code: 1, stdout: "", stderr: `${REASON}\n` });
    expect(await project.npmCalls()).toEqual([]);
  });

  it("runs on the Node of npm's package, with a real Node 20 and the real npm", async () => {
    await project.signet("version");
    const prefix = join(directory, "node-20");
    const { stdout: parent } = await run("npm", [
      "install",
      "--prefix",
      prefix,
      "--silent",
      "node@20.20.2",
    ]).then(
      async () => await run(join(prefix, "node_modules", "node", "bin", "node"), ["-p", "process.execPath"]),
    );
    const env = project.environment({ npm_execpath: "" });
    const { stdout, stderr } = await run(parent.trim(), [project.bootstrap, "whoami"], {
      cwd: directory,
      env,
    });
    const [, version] = /installing Node (\S+) in/.exec(stderr) ?? [];
    expect(JSON.parse(stdout)).toMatchObject({ args: ["whoami"], node: version });
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

  it("is made again when package.json has changed, whose imports say where modules lie", async () => {
    await project.signet("whoami");
    const manifest = { type: "module", imports: { "#*.ts": "./src/*.ts" } };
    await writeFile(join(directory, "package.json"), JSON.stringify(manifest));
    await project.signet("whoami");
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

  it("the command line runs from any directory and through a symlink, as npm creates it for package.json's bin", async () => {
    await chmod(project.bootstrap, 0o755);
    const link = join(directory, "signet");
    await symlink(project.bootstrap, link);
    const { stdout } = await run(link, ["doctor"], { cwd: tmpdir(), env: project.environment() });
    expect(JSON.parse(stdout)).toMatchObject({ args: ["doctor"], environment: null });
  });

  const promises = ["--project", "unit", "--project", "machine", "--project", "promises"];
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
      [
        "run",
        ...["unit", "machine", "promises", "system", "shared", "portal"].flatMap((name) => [
          "--project",
          name,
        ]),
        "--shard",
        "1/4",
      ],
    ],
  ])("%j runs vitest with %j", async (line, vitest) => {
    expect(JSON.parse((await project.signet(...line)).stdout)).toEqual(vitest);
  });
});

describe.each([
  ["`start`", []],
  ["`start` on a Node that is too old", ["--import", OLD]],
])("%s", (_, options) => {
  beforeEach(async () => await create({ realEsbuild: true }));

  interface Started {
    readonly child: ChildProcess;
    readonly output: () => string;
    readonly server: { args: string[]; environment: string; pid: number };
    readonly exit: Promise<number | null>;
  }

  async function start(extra: Record<string, string> = {}): Promise<Started> {
    await project.signet("version");
    const child = spawn(process.execPath, [...options, project.bootstrap, "start", "--port", "1"], {
      env: project.environment(extra),
    });
    children.push(child);
    let output = "";
    child.stdout.on("data", (chunk) => (output += String(chunk)));
    // At `exit`, its last output may be on the way.
    const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
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
    const { child, server } = await start();
    child.kill("SIGKILL");
    await vi.waitFor(() => expect(isRunning(server.pid)).toBe(false), { timeout: 90_000 });
  });
});

/** The npm packages: packed, installed into empty projects outside of the repository, and used from there. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire, isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { publint } from "publint";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { encodeEntry } from "#compliance/entry.ts";
import { encodeItem } from "#compliance/log-items.ts";
import { leafHash } from "#lib/transparency-log/node-crypto.ts";
import { PACKAGES, VERSION } from "#runtime/package.ts";
import { useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { freePorts } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { grow } from "../support/merkle-vectors.ts";
import {
  cpuOfStart,
  installInto,
  type PackageName,
  type PackedPackage,
  packPackages,
  TYPED_CONSUMER,
} from "../support/packages.ts";
import { productionImage, runProcess, type SpawnedProcess, spawnProcess } from "../support/processes.ts";
import { lacks } from "../support/skips.ts";
import { createTenant } from "../support/tenant.ts";

allowMinutes(10);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const KB = 1_000;
/** Most CPU time of a start, in starts of Node alone: machines differ. The bench holds it at 0.25 s. */
const START_CPU_NODES = 24;
const require = createRequire(import.meta.url);

const unreachable = lacks(
  "the client on Node 20, and the server's package with its dependencies",
  "npm view fastify version",
);

const api = useTestApi({ worker: true });

let directory: string;
let packed: Readonly<Record<PackageName, PackedPackage>>;
/** A project with the client and the command line. */
let project: string;
/** Projects that npm installs from the registry while other tests run. */
let fetched: Readonly<Record<"oldestNode" | "server", Promise<string>>> | undefined;

beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), "signet-packages-")));
  packed = await packPackages(directory, join(productionImage(), "dist"));
  project = join(directory, "project");
  await installInto(project, [packed.client.tarball, packed.cli.tarball]);
  if (!unreachable) {
    const { engines } = await manifestOf("client");
    const version = (engines as { readonly node: string }).node.replace(">=", "");
    fetched = {
      oldestNode: installInto(join(directory, "node"), [`node@${version}`], ["--ignore-scripts=false"]),
      server: installInto(join(directory, "server"), [packed.server.tarball], ["--prefer-offline"]),
    };
    // Tests that await them report a failure.
    void Promise.allSettled(Object.values(fetched));
  }
});

afterAll(async () => {
  await Promise.allSettled(Object.values(fetched ?? {}));
  await rm(directory, { recursive: true, force: true });
});

/** Names of the packages that npm has installed. */
async function installed(): Promise<readonly string[]> {
  const lockfile = await readFile(join(project, "node_modules", ".package-lock.json"), "utf8");
  const { packages } = JSON.parse(lockfile) as { packages: Record<string, unknown> };
  return Object.keys(packages).toSorted();
}

async function manifestOf(name: PackageName): Promise<Readonly<Record<string, unknown>>> {
  return JSON.parse(await readFile(join(packed[name].directory, "package.json"), "utf8")) as Record<
    string,
    unknown
  >;
}

/** Runs a program of the project with nothing of this process's environment. */
async function node(...args: readonly string[]): Promise<string> {
  return await runProcess({ command: ["node", ...args], cwd: project, environment: { HOME: project } });
}

const SIGNET = join("node_modules", ".bin", "signet");

describe("every package", () => {
  const names = ["client", "cli", "server"] as const;

  test.each(names)("%s has its name, version, licence and README, and nothing for tests", async (name) => {
    const { license, version } = JSON.parse(await readFile(join(REPOSITORY, "package.json"), "utf8")) as {
      license: string;
      version: string;
    };
    expect(await manifestOf(name)).toMatchObject({ name: PACKAGES[name], version, license });
    const { files } = packed[name];
    expect(files).toEqual(expect.arrayContaining(["LICENSE", "README.md", "package.json"]));
    expect(files.filter((path) => path.endsWith(".ts") && !path.endsWith(".d.ts"))).toEqual([]);
    expect(files.filter((path) => /(^|\/)(test|node_modules)\//.test(path))).toEqual([]);
  });

  test.each(names)("publint finds nothing in %s", async (name) => {
    const { messages } = await publint({ pkgDir: packed[name].directory, strict: true, pack: false });
    expect(messages).toEqual([]);
  });
});

describe("the client", () => {
  const subpaths = ["", "/receiver", "/edge-identity", "/status-list", "/transparency-log"];

  test("is small and comes alone", async () => {
    expect(packed.client.bytes).toBeLessThanOrEqual(110 * KB);
    expect(await manifestOf("client")).not.toHaveProperty("dependencies");
    expect(await installed()).toEqual([PACKAGES.cli, PACKAGES.client].map((name) => `node_modules/${name}`));
  });

  test("has right types for every way to import it", () => {
    const attw = join(REPOSITORY, "node_modules", ".bin", "attw");
    // node16: without TypeScript's resolution of before 2020, which knows no subpath exports.
    const args = [packed.client.tarball, "--profile", "node16", "--format", "json", "--no-definitely-typed"];
    const { stdout } = spawnSync(attw, args, { encoding: "utf8" });
    const { analysis } = JSON.parse(stdout) as {
      analysis: { entrypoints: object; problems: readonly { resolutionKind?: string }[] };
    };
    expect(Object.keys(analysis.entrypoints)).toEqual(
      expect.arrayContaining(subpaths.map((path) => (path === "" ? "." : `.${path}`))),
    );
    expect(analysis.problems.filter(({ resolutionKind }) => resolutionKind !== "node10")).toEqual([]);
  });

  test("exports the same by import and by require, and each class once", async () => {
    await writeFile(
      join(project, "both.mjs"),
      `import { createRequire, isBuiltin } from "node:module";
      import { strictEqual, deepStrictEqual } from "node:assert";
      const require = createRequire(import.meta.url);
      const all = {};
      for (const path of ${JSON.stringify(subpaths)}) {
        const [esm, cjs] = [await import("${PACKAGES.client}" + path), require("${PACKAGES.client}" + path)];
        deepStrictEqual(Object.keys(cjs).sort(), Object.keys(esm).sort());
        all[path] = [Object.keys(esm).length, esm, cjs];
      }
      for (const form of [1, 2]) {
        const [client, log] = [all[""][form], all["/transparency-log"][form]];
        strictEqual(client.ComplianceProofError, log.ComplianceProofError);
        strictEqual(client.NoteError, log.NoteError);
      }
      console.log(Object.values(all).every(([count]) => count > 0));`,
    );
    expect(await node("both.mjs")).toBe("true\n");
  });

  const body = `
    const rawBody = Buffer.from(JSON.stringify({ id: "evt_1", sent_at: 1764000000, data: { run: 7 } }));
    const secret = "whsec_" + Buffer.alloc(32, 7).toString("base64");
    const signed = signDelivery({ secret, body: rawBody, id: "evt_1", timestampSeconds: 1764000000 });
    const headers = {
      "x-service-signature-256": signed.sha256,
      "x-service-timestamp": "1764000000",
      "x-service-event-id": "evt_1",
      "webhook-id": "evt_1",
      "webhook-timestamp": "1764000000",
      "webhook-signature": signed.v1,
    };
    const now = 1764000000_000;
    console.log(JSON.stringify(verify({ rawBody, headers, secrets: [secret], now }).payload.data));
    try {
      verify({ rawBody: Buffer.concat([rawBody, Buffer.from(" ")]), headers, secrets: [secret], now });
    } catch (error) {
      console.log(error instanceof VerificationError && error.code);
    }`;

  test.each([
    ["program.mjs", `import { signDelivery, VerificationError, verify } from "${PACKAGES.client}/receiver";`],
    [
      "program.cjs",
      `const { signDelivery, VerificationError, verify } = require("${PACKAGES.client}/receiver");`,
    ],
  ])("verifies a webhook in plain JavaScript: %s", async (name, imports) => {
    await writeFile(join(project, name), `${imports}\n${body}`);
    expect(await node(name)).toBe('{"run":7}\nSIGNATURE_INVALID\n');
  });

  test.skipIf(unreachable)("does all of this on the oldest Node of its manifest, too", async () => {
    const oldest = join((await fetched?.oldestNode) ?? "", "node_modules", "node", "bin", "node");
    const on = async (program: string): Promise<string> =>
      await runProcess({ command: [oldest, program], cwd: project, environment: {} });
    expect(await on("both.mjs")).toBe("true\n");
    for (const program of ["program.mjs", "program.cjs"]) {
      expect(await on(program)).toBe('{"run":7}\nSIGNATURE_INVALID\n');
    }
  });

  /** Also the TypeScript of 2024, which attw brings. */
  const compilers = [
    ["TypeScript 7", require.resolve("typescript/package.json").replace("package.json", "bin/tsc")],
    [
      "TypeScript 5",
      createRequire(
        createRequire(require.resolve("@arethetypeswrong/cli/package.json")).resolve(
          "@arethetypeswrong/core",
        ),
      )
        .resolve("typescript/package.json")
        .replace("package.json", "bin/tsc"),
    ],
  ] as const;
  /** Compiles the consumer under these names. Resolves with the directory of the output. */
  async function compile(tsc: string, resolution: string, files: readonly string[]): Promise<string> {
    const place = await mkdtemp(join(project, "typed-"));
    await mkdir(join(project, "node_modules", "@types"), { recursive: true });
    for (const types of ["@types/node", "undici-types"]) {
      const target = join(project, "node_modules", types);
      await symlink(join(REPOSITORY, "node_modules", types), target).catch(() => undefined);
    }
    for (const name of files) {
      await writeFile(join(place, name), TYPED_CONSUMER);
    }
    const compilerOptions = {
      strict: true,
      skipLibCheck: false,
      // The compiler's own declarations take a third of the time.
      skipDefaultLibCheck: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      module: resolution === "bundler" ? "esnext" : resolution,
      moduleResolution: resolution,
      target: "es2022",
      types: ["node"],
      outDir: "out",
    };
    await writeFile(join(place, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    await runProcess({ command: ["node", tsc, "-p", place], cwd: place, environment: {} });
    return join(place, "out");
  }

  describe.each(compilers)("%s, strict, checks all declarations", (_name, tsc) => {
    test("as nodenext, from modules and from CommonJS", async () => {
      const out = await compile(tsc, "nodenext", ["program.mts", "program.cts"]);
      expect(await node(join(out, "program.mjs"))).toBe("function function function\n");
      expect(await node(join(out, "program.cjs"))).toBe("function function function\n");
    });

    test("as bundler", async () => {
      const out = await compile(tsc, "bundler", ["program.ts"]);
      const bundle = { bundle: true, platform: "node", outfile: join(out, "bundle.cjs") } as const;
      await build({ entryPoints: [join(out, "program.js")], ...bundle });
      expect(await node(join(out, "bundle.cjs"))).toBe("function function function\n");
    });
  });
});

describe("the command line", () => {
  test("is small, comes alone, and names the licences of what it holds", async () => {
    expect(packed.cli.unpackedBytes).toBeLessThanOrEqual(5_000 * KB);
    expect(await manifestOf("cli")).not.toHaveProperty("dependencies");
    const bundle = join(packed.cli.directory, "dist");
    const outside = new Set<string>();
    for (const name of await readdir(bundle)) {
      const code = await readFile(join(bundle, name), "utf8");
      // Also what the code would load by `require`.
      expect(code, name).not.toContain("@temporalio/");
      for (const [, specifier = ""] of code.matchAll(/(?: from |^import |\bimport\()"([^".\s][^"\s]*)"/gm)) {
        outside.add(specifier);
      }
    }
    expect([...outside].filter((specifier) => !isBuiltin(specifier))).toEqual(["pg"]);
    const licences = await readFile(join(packed.cli.directory, "LICENSES-OF-BUNDLED-PACKAGES.txt"), "utf8");
    for (const name of ["commander", "undici", "pino", "@peculiar/x509"]) {
      expect(licences).toMatch(new RegExp(`^${name} \\d+\\.`, "m"));
    }
  });

  test("starts outside of the clone", async () => {
    expect(await node(SIGNET, "--version")).toBe(`${VERSION}\n`);
    const help = await node(SIGNET, "--help");
    expect(help).toMatch(/^Usage: signet /);
    for (const command of ["listen", "agent", "audit", "compliance", "tenant", "endpoint"]) {
      expect(help).toMatch(new RegExp(`^ {2}${command} `, "m"));
    }
    expect(help).not.toMatch(/^ {2}(serve|worker|migrate) /m);
  });

  test("names the package of the service for its commands, and the one that --db needs", async () => {
    const fails = async (...args: readonly string[]): Promise<string> => {
      const child = spawnProcess({
        command: ["node", SIGNET, ...args],
        cwd: project,
        environment: { HOME: project },
      });
      const { code } = await child.ended;
      return `${code} ${child.output()}`;
    };
    expect(await fails("migrate")).toBe(
      `2 signet: \`signet migrate\` is part of the service, another package: npx ${PACKAGES.server} migrate\n`,
    );
    const { verifierKey } = new CheckpointKey("log.example", randomBytes(32));
    expect(await fails("audit", "verify", "--vkey", verifierKey, "--db", "postgres://127.0.0.1:1/x")).toBe(
      "1 signet: --db needs the npm package `pg`: install it beside this one.\n",
    );
  });

  test("suggests commands by the name of its package, when npx has started it", async () => {
    const child = spawnProcess({
      command: ["node", SIGNET, "lst"],
      cwd: project,
      environment: { HOME: project, npm_command: "exec" },
    });
    await child.ended;
    expect(child.output()).toContain(`npx ${PACKAGES.cli} --help`);
  });

  test("verifies an exported log, and finds a change", async () => {
    const key = new CheckpointKey("log.example", randomBytes(32));
    const { beforeIndex, afterIndex } = encodeEntry(
      { type: "credential.revoked", actor: "operator:root", tenant: "ten_1", target: "crd_1" },
      { clock: { now: () => Date.parse("2025-11-20T14:46:40.120Z") }, randomBytes },
    );
    const entry = Buffer.concat([beforeIndex, Buffer.from("0"), afterIndex]);
    const { root } = grow([leafHash(entry)]);
    const columns = { at: "2025-11-20 14:46:40.12+00", type: "credential.revoked", tenant_id: "ten_1" };
    const exported = (content: Buffer): string =>
      (
        [
          { kind: "head", size: 1, root, entries: 1 },
          {
            kind: "checkpoint",
            seq: 1,
            size: 1,
            root,
            note: key.sign({ size: 1, root }),
            signed_at: new Date(0),
          },
          { kind: "entry", idx: 0, entry: content, leaf_hash: leafHash(content), ...columns },
          { kind: "end" },
        ] as const
      )
        .map((item) => `${encodeItem(item)}\n`)
        .join("");
    await writeFile(join(project, "log.ndjson"), exported(entry));
    const verify = [SIGNET, "audit", "verify", "--vkey", key.verifierKey, "--export", "log.ndjson"];
    expect(await node(...verify)).toContain("the log is intact");
    await writeFile(
      join(project, "log.ndjson"),
      exported(Buffer.from(String(entry).replace("crd_1", "crd_2"))),
    );
    await expect(node(...verify)).rejects.toThrow(/the log is not intact.*\nfirst bad entry: 0/);
  });

  test("makes development certificates, with a bundled package", async () => {
    expect(await node(SIGNET, "dev-ca", "init")).toContain(join(project, ".signet", "dev-ca", "ca.crt"));
  });

  test("needs little CPU to start", async () => {
    const seconds = await cpuOfStart(join(project, SIGNET), ["--version"]);
    const node = await cpuOfStart("--eval", ["0"]);
    console.log(`CPU of a start: ${seconds.toFixed(3)} s, of Node alone ${node.toFixed(3)} s`);
    expect(seconds).toBeGreaterThan(node);
    expect(seconds).toBeLessThan(START_CPU_NODES * node);
  });
});

describe("client and command line beside a real service", () => {
  test("one publishes and the other receives and verifies", async () => {
    const tenant = await createTenant(api);
    const environment = {
      HOME: project,
      SIGNET_API_URL: api.publicUrl,
      SIGNET_CLIENT_ID: tenant.clientId,
      SIGNET_CLIENT_SECRET: tenant.clientSecret,
    };
    const run = (...args: readonly string[]): SpawnedProcess =>
      spawnProcess({ command: ["node", ...args], cwd: project, environment });
    await writeFile(
      join(project, "publish.mjs"),
      `import { SignetClient } from "${PACKAGES.client}";
      const { SIGNET_API_URL: baseUrl, SIGNET_CLIENT_ID: clientId, SIGNET_CLIENT_SECRET: clientSecret } = process.env;
      const signet = new SignetClient({ baseUrl, clientId, clientSecret });
      const { id } = await signet.events.publish({ type: "pipeline.done", data: { run: 7 } });
      console.log(id);`,
    );
    const listening = run(SIGNET, "listen", "--json", "--count", "1", "--events", "pipeline.done");
    await eventually(() => listening.output().includes("Ready"), "signet listen");
    const publishing = run("publish.mjs");
    expect(await publishing.ended).toEqual({ code: 0, signal: null });
    expect(await listening.ended).toEqual({ code: 0, signal: null });
    const last = JSON.parse(listening.stdout().trim().split("\n").at(-1) ?? "") as object;
    expect(last).toMatchObject({
      event_type: "pipeline.done",
      verified: true,
      payload: { id: publishing.stdout().trim(), data: { run: 7 } },
    });
  });
});

describe.skipIf(unreachable)("the server", () => {
  let place: string;

  beforeAll(async () => {
    place = (await fetched?.server) ?? "";
  });

  test("has the clone's production dependencies, and runs without development dependencies", async () => {
    const { dependencies } = JSON.parse(await readFile(join(REPOSITORY, "package.json"), "utf8")) as {
      dependencies: object;
    };
    expect(await manifestOf("server")).toMatchObject({ dependencies });
    const signet = async (...args: readonly string[]): Promise<string> =>
      await runProcess({ command: ["node", SIGNET, ...args], cwd: place, environment: { HOME: place } });
    expect(await signet("--version")).toBe(`${VERSION}\n`);
    expect(await signet("--help")).toMatch(/^ {2}migrate /m);
    expect(await readdir(join(place, "node_modules"))).not.toContain("esbuild");
  });

  test.each(["api", "worker"])("runs the %s until it is ready", async (command) => {
    const ports = await freePorts(2);
    const child = spawnProcess({
      command: ["node", SIGNET, command],
      cwd: place,
      environment: {
        ...api.environment,
        HOME: place,
        SIGNET_API_LISTEN: `127.0.0.1:${ports[0]}`,
        SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
        SIGNET_METRICS_LISTEN: `127.0.0.1:${ports[1]}`,
      },
    });
    const ready = async (): Promise<boolean> => (await fetch(`http://127.0.0.1:${ports[1]}/readyz`)).ok;
    await eventually(
      async () => child.state() !== undefined || (await ready()),
      `the ${command} to be ready`,
    );
    expect(child.state()).toBeUndefined();
    expect((await child.stop()).code).toBe(0);
  });
});

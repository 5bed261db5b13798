/** `npm run release`: equal files from two directories, and provenance that notices a changed byte. */
import { execFile } from "node:child_process";
import { createHash, generateKeyPairSync } from "node:crypto";
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GO_MODULE, VERSION } from "#runtime/package.ts";
import { allowMinutes } from "../support/limits.ts";
import { lacks } from "../support/skips.ts";
import { workTreeFiles } from "../support/work-tree.ts";

allowMinutes(10);

const run = promisify(execFile);
const REPOSITORY = join(import.meta.dirname, "..", "..");
const OUTPUT_MAX = 64 * 1_048_576;
const IDENTITY = {
  GIT_AUTHOR_NAME: "Author",
  GIT_AUTHOR_EMAIL: "author@example.com",
  GIT_COMMITTER_NAME: "Author",
  GIT_COMMITTER_EMAIL: "author@example.com",
  GIT_AUTHOR_DATE: "2026-01-02T03:04:05Z",
  GIT_COMMITTER_DATE: "2026-01-02T03:04:05Z",
};

const lacksGo = lacks("the release's Go module", "go version");
const lacksPython = lacks("the release", "python3 -m pip index versions hatchling");

let directory: string;
let key: string;
let publicKey: string;
/** Directories of the two releases. */
let releases: readonly [string, string];

async function git(cwd: string, ...args: readonly string[]): Promise<string> {
  const env = { ...process.env, ...IDENTITY };
  const { stdout } = await run("git", args, { cwd, env, maxBuffer: OUTPUT_MAX });
  return stdout;
}

/** Copies the sources as they are now, and commits them. */
async function makeClone(clone: string): Promise<void> {
  for (const path of workTreeFiles()) {
    await mkdir(dirname(join(clone, path)), { recursive: true });
    await cp(join(REPOSITORY, path), join(clone, path), { verbatimSymlinks: true });
  }
  await git(clone, "init", "--quiet");
  await git(clone, "add", "--all");
  await git(clone, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "Release");
  // Links need no space; a package beside a link would lie in another directory.
  await run("cp", ["-al", join(REPOSITORY, "node_modules"), join(clone, "node_modules")]).catch(
    async () => await cp(join(REPOSITORY, "node_modules"), join(clone, "node_modules"), { recursive: true }),
  );
}

/** Runs the release as a maintainer does, who has hatchling. */
async function release(clone: string): Promise<string> {
  const { NODE_ENV: _, ...rest } = process.env;
  const env = { ...rest, PATH: `${join(directory, "python", "bin")}:${rest["PATH"]}` };
  await run("npm", ["run", "release", "--", "--key", key], { cwd: clone, env, maxBuffer: OUTPUT_MAX });
  return join(clone, "dist", "release");
}

const python = (): string => join(directory, "python", "bin", "python");

async function verify(release: string, pem = publicKey): Promise<string> {
  const program = join(REPOSITORY, "src", "processes", "release.mjs");
  const { stdout } = await run(process.execPath, [program, "verify", release, "--key", pem]);
  return stdout;
}

async function digests(release: string): Promise<Readonly<Record<string, string>>> {
  const entries = (await readdir(release)).toSorted().map(async (name) => {
    const content = await readFile(join(release, name));
    return [name, createHash("sha256").update(content).digest("hex")] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

async function writeKey(name: string): Promise<{ readonly own: string; readonly shared: string }> {
  const pair = generateKeyPairSync("ed25519");
  const [own, shared] = [join(directory, `${name}.pem`), join(directory, `${name}.pub`)];
  await writeFile(own, pair.privateKey.export({ type: "pkcs8", format: "pem" }));
  await writeFile(shared, pair.publicKey.export({ type: "spki", format: "pem" }));
  return { own, shared };
}

/** Returns the names in a tar archive, in its order. */
function namesIn(archive: Buffer): readonly string[] {
  const tar = gunzipSync(archive);
  const names: string[] = [];
  for (let at = 0; at < tar.length && tar[at] !== 0;) {
    const field = (from: number, length: number): string =>
      tar.toString("latin1", at + from, at + from + length).replace(/\0.*$/s, "");
    const size = Number.parseInt(field(124, 12), 8);
    if (field(156, 1) !== "g") {
      names.push(field(345, 155) === "" ? field(0, 100) : `${field(345, 155)}/${field(0, 100)}`);
    }
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return names;
}

beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), "signet-release-")));
  if (lacksPython) {
    return;
  }
  ({ own: key, shared: publicKey } = await writeKey("release"));
  await run("python3", ["-m", "venv", join(directory, "python")]);
  await run(python(), ["-m", "pip", "install", "--quiet", "hatchling==1.33.0"]);
  const clones = [join(directory, "a"), join(directory, "another", "place")] as const;
  await makeClone(clones[0]);
  await makeClone(clones[1]);
  releases = [await release(clones[0]), await release(clones[1])];
});

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

describe.skipIf(lacksPython)("a release", () => {
  test("has the same bytes when it is made in another directory", async () => {
    const [first, second] = await Promise.all(releases.map(digests));
    expect(second).toEqual(first);
    expect(Object.keys(first ?? {})).toEqual(
      expect.arrayContaining([
        "RELEASE-NOTES.md",
        "SHA256SUMS",
        "provenance.intoto.jsonl",
        `signet-${VERSION}-image-context.tar.gz`,
        `signet-${VERSION}.cdx.json`,
        `signet-chart-${VERSION}.tgz`,
        `signet-go-${VERSION}.zip`,
        `signet_delivery-${VERSION}-py3-none-any.whl`,
        `signet-delivery-cli-${VERSION}.tgz`,
        `signet-delivery-client-${VERSION}.tgz`,
        `signet-delivery-server-${VERSION}.tgz`,
      ]),
    );
  });

  test("has a wheel that pip installs, with the types", async () => {
    const place = join(directory, "installed");
    const wheel = join(releases[0], `signet_delivery-${VERSION}-py3-none-any.whl`);
    await run(python(), ["-m", "pip", "install", "--quiet", "--no-index", "--target", place, wheel]);
    expect(await readdir(join(place, "signet_delivery"))).toEqual(
      expect.arrayContaining(["py.typed", "client.py"]),
    );
    const program = "import importlib.metadata as m, signet_delivery; print(m.version('signet-delivery'))";
    const { stdout } = await run(python(), ["-c", program], { env: { PYTHONPATH: place } });
    expect(stdout).toBe(`${VERSION}\n`);
  });

  test.skipIf(lacksGo)("has the Go module as a proxy serves it", async () => {
    const proxy = join(directory, "proxy");
    const served = join(proxy, GO_MODULE, "@v");
    await mkdir(served, { recursive: true });
    const version = `v${VERSION}`;
    await cp(join(releases[0], `signet-go-${VERSION}.zip`), join(served, `${version}.zip`));
    await cp(join(REPOSITORY, "sdk", "go", "go.mod"), join(served, `${version}.mod`));
    await writeFile(join(served, `${version}.info`), JSON.stringify({ Version: version }));
    const place = join(directory, "go");
    await mkdir(place);
    await writeFile(
      join(place, "go.mod"),
      `module example.com/x\n\ngo 1.23\n\nrequire ${GO_MODULE} ${version}\n`,
    );
    await writeFile(join(place, "x.go"), `package x\n\nimport _ "${GO_MODULE}"\n`);
    const env = {
      ...process.env,
      GOPROXY: `file://${proxy}`,
      GOSUMDB: "off",
      GOTOOLCHAIN: "local",
      GOWORK: "off",
      GOFLAGS: "-mod=mod -modcacherw",
      GOMODCACHE: join(directory, "go-modules"),
    };
    await run("go", ["build", "./..."], { cwd: place, env });
    const names = await readdir(join(directory, "go-modules", `${GO_MODULE}@${version}`));
    expect(names).toEqual(expect.arrayContaining(["LICENSE", "client.go", "go.mod"]));
  });

  test("has the chart as Helm packs it: below its name", async () => {
    const names = namesIn(await readFile(join(releases[0], `signet-chart-${VERSION}.tgz`)));
    expect(names).toEqual(expect.arrayContaining(["signet/Chart.yaml", "signet/values.yaml"]));
    expect(names.filter((name) => !name.startsWith("signet/"))).toEqual([]);
  });

  test("has checksums that sha256sum takes", async () => {
    const { stdout } = await run("sha256sum", ["--check", "SHA256SUMS"], { cwd: releases[0] });
    const others = ["SHA256SUMS", "provenance.intoto.jsonl"];
    const names = (await readdir(releases[0])).filter((name) => !others.includes(name)).toSorted();
    expect(stdout).toBe(names.map((name) => `${name}: OK\n`).join(""));
  });

  test("has the image's context: the Dockerfile and what .dockerignore admits", async () => {
    const names = namesIn(await readFile(join(releases[0], `signet-${VERSION}-image-context.tar.gz`)));
    const tops = new Set(names.map((name) => name.replace(/\/.*/, "")));
    const ignore = await readFile(join(REPOSITORY, ".dockerignore"), "utf8");
    const admitted = [...ignore.matchAll(/^!(.*)$/gm)].map(([, name = ""]) => name);
    expect([...tops].toSorted()).toEqual(["Dockerfile", ...admitted].toSorted());
    expect(names).toContain("src/processes/main.ts");
  });

  test("lists the production dependencies of the lockfile, and which of them the image has", async () => {
    interface Component {
      readonly name: string;
      readonly version: string;
      readonly scope: string;
    }
    const document = JSON.parse(await readFile(join(releases[0], `signet-${VERSION}.cdx.json`), "utf8")) as {
      readonly bomFormat: string;
      readonly components: readonly Component[];
      readonly metadata: { readonly timestamp: string };
    };
    expect(document).toMatchObject({
      bomFormat: "CycloneDX",
      serialNumber: expect.stringMatching(
        /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
      ),
      metadata: { timestamp: "2026-01-02T03:04:05.000Z", component: { name: "signet", version: VERSION } },
    });
    const scopes = new Map(
      document.components.map(({ name, version, scope }) => [`${name}@${version}`, scope]),
    );
    const { dependencies } = JSON.parse(await readFile(join(REPOSITORY, "package.json"), "utf8")) as {
      readonly dependencies: Readonly<Record<string, string>>;
    };
    for (const [name, version] of Object.entries(dependencies)) {
      expect(scopes.get(`${name}@${version}`), name).toBe("required");
    }
    const { packages } = JSON.parse(await readFile(join(REPOSITORY, "package-lock.json"), "utf8")) as {
      readonly packages: Readonly<
        Record<string, { readonly version: string; readonly dev?: boolean; readonly devOptional?: boolean }>
      >;
    };
    const production = Object.entries(packages)
      .filter(([path, { dev, devOptional }]) => path !== "" && dev !== true && devOptional !== true)
      .map(([path, { version }]) => `${path.replace(/^.*node_modules\//, "")}@${version}`);
    expect([...scopes.keys()].toSorted()).toEqual([...new Set(production)].toSorted());
    const optional = [...scopes].filter(([, scope]) => scope === "optional").map(([name]) => name);
    expect(optional).toEqual(
      expect.arrayContaining([expect.stringMatching(/^webpack@/), expect.stringMatching(/^@swc\/core@/)]),
    );
  });
});

describe.skipIf(lacksPython)("provenance", () => {
  let copy: string;

  /** Copies the release, so that each test changes its own. */
  async function copyOf(name: string): Promise<string> {
    copy = join(directory, name);
    await cp(releases[0], copy, { recursive: true });
    return copy;
  }

  test("names the commit and every file, and is verified with the public key", async () => {
    const commit = (await git(join(releases[0], "..", ".."), "rev-parse", "HEAD")).trim();
    const files = (await readdir(releases[0])).length - 1;
    expect(await verify(releases[0])).toBe(
      `${files} files of version ${VERSION}, commit ${commit}: signature and digests are right\n`,
    );
    const envelope = JSON.parse(await readFile(join(releases[0], "provenance.intoto.jsonl"), "utf8")) as {
      readonly payload: string;
    };
    expect(JSON.parse(Buffer.from(envelope.payload, "base64").toString())).toMatchObject({
      _type: "https://in-toto.io/Statement/v1",
      predicateType: "https://slsa.dev/provenance/v1",
      predicate: { buildDefinition: { resolvedDependencies: [{ digest: { gitCommit: commit } }, {}] } },
    });
  });

  test("notices a changed byte, a missing and an additional file, all at once", async () => {
    const changed = await copyOf("changed");
    const tarball = join(changed, `signet-delivery-client-${VERSION}.tgz`);
    const content = await readFile(tarball);
    content[content.length - 1] = (content.at(-1) ?? 0) ^ 1;
    await writeFile(tarball, content);
    await rm(join(changed, "RELEASE-NOTES.md"));
    await writeFile(join(changed, "more.tgz"), "");
    await expect(verify(changed)).rejects.toMatchObject({
      code: 1,
      stderr: `release: RELEASE-NOTES.md is missing\nsignet-delivery-client-${VERSION}.tgz was changed\nmore.tgz is not part of the release\n`,
    });
  });

  test("is rejected with another key, and when its statement was changed", async () => {
    const { shared } = await writeKey("stranger");
    const stderr = "release: provenance.intoto.jsonl is not signed by this key\n";
    await expect(verify(releases[0], shared)).rejects.toMatchObject({ code: 1, stderr });
    const changed = await copyOf("statement");
    const path = join(changed, "provenance.intoto.jsonl");
    const envelope = JSON.parse(await readFile(path, "utf8")) as { payload: string };
    const statement = Buffer.from(envelope.payload, "base64").toString().replace(VERSION, "9.9.9");
    await writeFile(
      path,
      JSON.stringify({ ...envelope, payload: Buffer.from(statement).toString("base64") }),
    );
    await expect(verify(changed)).rejects.toMatchObject({ code: 1, stderr });
  });
});

test.skipIf(lacksPython)("a tree with uncommitted changes is not released", async () => {
  const clone = join(releases[0], "..", "..");
  await writeFile(join(clone, "src", "left.ts"), "");
  await expect(run(process.execPath, [join(clone, "src", "processes", "release.mjs")])).rejects.toMatchObject(
    {
      code: 1,
      stderr: expect.stringMatching(
        /^release: a release is made from a commit; .*\n\?\? src\/left\.ts\n$/,
      ) as string,
    },
  );
});

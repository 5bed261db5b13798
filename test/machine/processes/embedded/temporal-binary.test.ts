import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server as TcpServer } from "node:net";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isRunning } from "#processes/embedded/process-identity.ts";
import { resolveTemporalBinary } from "#processes/embedded/temporal-binary.ts";
import {
  OFFICIAL_RELEASE,
  releasePlatform,
  type TemporalRelease,
} from "#processes/embedded/temporal-download.ts";

const run = promisify(execFile);
const RECENT = "temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)";

let scratch: string;
let cacheDir: string;
let bin: string;
let lines: string[];
let servers: (Server | TcpServer)[];

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "signet-temporal-binary-"));
  cacheDir = join(scratch, "cache");
  bin = join(scratch, "bin");
  lines = [];
  servers = [];
  await mkdir(bin);
  for (const [file, text] of Object.entries(SOURCE)) {
    const path = join(bin, "source", file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { mode: 0o444 });
  }
});

afterEach(async () => {
  for (const server of servers) {
    server.close();
    if ("closeAllConnections" in server) {
      server.closeAllConnections();
    }
  }
  await rm(scratch, { recursive: true, force: true });
});

async function script(path: string, ...body: string[]): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `#!/bin/sh\n${body.join("\n")}\n`);
  await chmod(path, 0o755);
}

/** No network, and on PATH only the test's `bin` and the system's tools. */
const NO_DOWNLOAD: TemporalRelease = { urls: () => [], sha256: { [releasePlatform()]: "0" } };

async function resolve(
  release: TemporalRelease = NO_DOWNLOAD,
  extra: Partial<Parameters<typeof resolveTemporalBinary>[0]> = {},
): ReturnType<typeof resolveTemporalBinary> {
  return await resolveTemporalBinary({
    environment: { PATH: `${bin}:/bin-of-nobody`, GOPROXY: "https://proxy.example", GOOS: "plan9" },
    cacheDir,
    log: (line) => lines.push(line),
    release,
    ...extra,
  });
}

/** The used part of the CLI's module. */
const SOURCE = {
  "temporalcli/devserver/server.go":
    'import (\n\t"go.temporal.io/server/components/callbacks"\n)\ndynConf[dynamicconfig.Key(k)] = v\n',
  "temporalcli/commands.worker.go": "ProcessKey: info.GetProcessKey(),\n",
} as const;
/** Answers the question for the module's source. */
const GO_SOURCE = 'if [ "$1" = mod ]; then echo "{\\"Dir\\": \\"${0%/*}/source\\"}"; exit; fi';
const GO = [
  GO_SOURCE,
  'echo "$@" >> "$0.calls"; echo "$GOPROXY/$GOOS" >> "$0.environment"',
  'while read -r line; do echo "$line"; done < go.mod > "$0.module"',
  'while read -r line; do echo "$line"; done < cli/temporalcli/devserver/server.go > "$0.server"',
  'while read -r line; do echo "$line"; done < cli/temporalcli/commands.worker.go > "$0.worker"',
  `printf '#!/bin/sh\\necho built\\n' > "$GOBIN/temporal"`,
];

/** Serves a release on a local server: an archive as Temporal publishes them. Returns the requests it gets. */
async function publish(content = "#!/bin/sh\necho downloaded\n"): Promise<{
  release: TemporalRelease;
  requests: string[];
}> {
  const packed = join(scratch, "packed");
  await mkdir(packed, { recursive: true });
  await writeFile(join(packed, "temporal"), content);
  await writeFile(join(packed, "LICENSE"), "MIT");
  await run("tar", ["-czf", join(scratch, "archive.tar.gz"), "-C", packed, "LICENSE", "temporal"]);
  const archive = await readFile(join(scratch, "archive.tar.gz"));
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    if (request.url === "/gone") {
      response.writeHead(404).end();
    } else if (request.url === "/moved") {
      response.writeHead(302, { location: "/archive" }).end();
    } else {
      response.end(archive);
    }
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    release: {
      urls: () => [`${base}/gone`, `${base}/moved`],
      sha256: { [releasePlatform()]: createHash("sha256").update(archive).digest("hex") },
    },
    requests,
  };
}

async function cacheEntries(): Promise<string[]> {
  const names: string[] = await readdir(join(cacheDir, "temporal")).catch(() => []);
  return names.sort();
}

describe("the order", () => {
  it("a temporal on PATH comes first", async () => {
    await script(join(bin, "temporal"), `echo '${RECENT}'`);
    const { release, requests } = await publish();
    expect(await resolve(release)).toEqual({ path: join(bin, "temporal"), origin: "path" });
    expect(requests).toEqual([]);
  });

  it("a temporal on PATH that is too old, or another program, is skipped with a message", async () => {
    await script(join(bin, "temporal"), "echo 'temporal version 0.10.7 (server 1.22.1) (ui 2.16.2)'");
    await script(join(bin, "go"), ...GO);
    expect((await resolve()).origin).toBe("go");
    expect(lines[0]).toContain("is not a Temporal CLI with server 1.24 or newer");
  });

  it("the cache of an earlier run comes second", async () => {
    const { release, requests } = await publish();
    const first = await resolve(release);
    const asked = requests.length;
    expect(await resolve(release)).toEqual({ path: first.path, origin: "cache" });
    expect(requests).toHaveLength(asked);
  });

  it("the official download comes third, from the first host that has it, over redirects", async () => {
    const { release, requests } = await publish();
    const { path, origin } = await resolve(release);
    expect(origin).toBe("download");
    expect(requests).toEqual(["/gone", "/moved", "/archive"]);
    expect((await run(path)).stdout).toBe("downloaded\n");
    expect(await cacheEntries()).toEqual([`1.9.1-r1-${process.platform}-${process.arch}`]);
  });

  it("go install comes last, with Go's own settings and this machine's platform", async () => {
    await script(join(bin, "go"), ...GO);
    const { path, origin } = await resolve();
    expect(origin).toBe("go");
    expect((await run(path)).stdout).toBe("built\n");
    expect(await readFile(join(bin, "go.calls"), "utf8")).toBe(
      "install -mod=mod github.com/temporalio/cli/cmd/temporal\n",
    );
    expect(await readFile(join(bin, "go.environment"), "utf8")).toBe("https://proxy.example/\n");
    expect(await readFile(join(bin, "go.module"), "utf8")).toMatch(
      /\nrequire github\.com\/temporalio\/cli v1\.5\.1\nrequire go\.temporal\.io\/server v1\.32\.0\n(.*\n)*replace github\.com\/temporalio\/cli => \.\/cli\n$/,
    );
    expect(await readFile(join(bin, "go.server"), "utf8")).toBe(
      'import (\ncallbacks "go.temporal.io/server/chasm/lib/callback"\n)\ndynConf[dynamicconfig.MakeKey(k)] = v\n',
    );
    expect(await readFile(join(bin, "go.worker"), "utf8")).toBe('ProcessKey: "",\n');
  });

  it("one error lists every way if all fail", async () => {
    await expect(resolve()).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(
        /^no Temporal server to run:\n {2}- the official download: .*\n {2}- go install: there is no Go toolchain.*\n {2}- set TEMPORAL_ADDRESS /,
      ),
    });
  });
});

describe("nothing unverified is run", () => {
  it("a download with another digest is rejected and deleted", async () => {
    const { release } = await publish();
    await script(join(bin, "go"), ...GO);
    const wrong = { ...release, sha256: { [releasePlatform()]: "ab".repeat(32) } };
    const { path, origin } = await resolve(wrong);
    expect(origin).toBe("go");
    expect((await run(path)).stdout).toBe("built\n");
    expect(lines.join("\n")).toMatch(/refused: its SHA-256 is [0-9a-f]{64}, not abab/);
    expect(await cacheEntries()).toEqual([`1.9.1-r1-${process.platform}-${process.arch}`]);
  });

  it("nothing is downloaded for a platform without a known digest", async () => {
    const { release, requests } = await publish();
    await expect(resolve({ ...release, sha256: {} })).rejects.toThrow(/no digest is known for/);
    expect(requests).toEqual([]);
  });

  it("digests are known for Linux and macOS on both architectures", () => {
    expect(Object.keys(OFFICIAL_RELEASE.sha256).sort()).toEqual([
      "darwin_amd64",
      "darwin_arm64",
      "linux_amd64",
      "linux_arm64",
    ]);
    for (const digest of Object.values(OFFICIAL_RELEASE.sha256)) {
      expect(digest).toMatch(/^[0-9a-f]{64}$/);
    }
    expect(OFFICIAL_RELEASE.urls("1.9.1", "linux_arm64")).toEqual([
      "https://github.com/temporalio/cli/releases/download/v1.9.1/temporal_cli_1.9.1_linux_arm64.tar.gz",
      "https://temporal.download/cli/archive/v1.9.1?platform=linux&arch=arm64",
    ]);
  });
});

it("a host without a connection is abandoned in time", async () => {
  // Accepts TCP and never answers the TLS handshake: to the caller the same as an unreachable host.
  const silent = createTcpServer();
  servers.push(silent);
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const url = `https://127.0.0.1:${(silent.address() as AddressInfo).port}/archive`;
  await script(join(bin, "go"), ...GO);
  const release = { ...NO_DOWNLOAD, urls: () => [url] };
  expect((await resolve(release, { connectTimeoutMs: 300 })).origin).toBe("go");
  expect(lines.join("\n")).toMatch(/Connect Timeout.*timeout: 300ms/);
});

it("concurrent callers all get a complete program", async () => {
  await script(join(bin, "go"), ...GO);
  const found = await Promise.all([resolve(), resolve(), resolve()]);
  expect(new Set(found.map(({ path }) => path)).size).toBe(1);
  expect((await run(found[0]?.path ?? "")).stdout).toBe("built\n");
  expect(await cacheEntries()).toEqual([`1.9.1-r1-${process.platform}-${process.arch}`]);
});

it("a killed build is cleaned up, and a running one is left alone", async () => {
  const abandoned = join(cacheDir, "temporal", "draft-old");
  const current = join(cacheDir, "temporal", "draft-new");
  await mkdir(abandoned, { recursive: true });
  await mkdir(current);
  await utimes(abandoned, 1, 1);
  await script(join(bin, "go"), ...GO);
  await resolve();
  expect(await cacheEntries()).toEqual([`1.9.1-r1-${process.platform}-${process.arch}`, "draft-new"]);
});

it("an interrupted build ends its compilers and tries nothing else", async () => {
  const started = join(scratch, "started");
  await script(
    join(bin, "go"),
    GO_SOURCE,
    "/bin/sleep 600 &",
    `echo $! > "${started}.draft"`,
    `/bin/mv "${started}.draft" "${started}"`,
    "wait",
  );
  const abort = new AbortController();
  const building = resolve(NO_DOWNLOAD, { signal: abort.signal });
  const compiler = await vi.waitFor(async () => Number(await readFile(started, "utf8")), { timeout: 50_000 });
  expect(isRunning(compiler)).toBe(true);
  abort.abort();
  await expect(building).rejects.toMatchObject({ name: "AbortError" });
  await vi.waitFor(() => expect(isRunning(compiler)).toBe(false), { timeout: 50_000 });
});

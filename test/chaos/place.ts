/** A case's own resources: its world, a disk that can be filled, a proxy that can go silent. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Postgres, startPostgres } from "../bench/environment/postgres.ts";
import type { Settings, Shape } from "../bench/environment/signet.ts";
import type { Stack } from "../bench/environment/stack.ts";
import { World } from "../bench/environment/world.ts";
import type { LoadGenerator } from "../bench/load/load-generator.ts";
import { createJumpingClock } from "../support/jumping-clock.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { mountSmallDisk, type SmallDisk } from "./small-disk.ts";
import type { Scene } from "./trial.ts";

/** Enough for a cluster, its write-ahead log and some thousand events. */
const POSTGRES_DISK_MIB = 320;
const LOG_DISK_MIB = 4;
const SMALL_POSTGRES = { shared_buffers: "64MB", min_wal_size: "32MB", max_wal_size: "64MB" };

export interface Setting {
  readonly shape?: Shape;
  readonly settings?: Settings;
  /** Which data is on a disk that can be filled. */
  readonly smallDisk?: "postgres" | "log";
  /** Whether api and worker reach PostgreSQL through a proxy that can go silent. */
  readonly throughProxy?: boolean;
  /** Processes whose clock can be set wrong. */
  readonly wrongClock?: "api" | "worker";
}

export interface Common {
  readonly stack: Stack;
  readonly load: LoadGenerator;
  readonly postgres: "system" | "embedded";
  readonly log: (line: string) => void;
}

export interface Place {
  readonly scene: Omit<Scene, "quick">;
  close(): Promise<void>;
}

async function startOwnPostgres(
  { stack, postgres: kind, log }: Common,
  directory: string,
): Promise<Postgres> {
  const { janitor } = stack;
  return await startPostgres({ directory, janitor, kind, log, settings: SMALL_POSTGRES });
}

/** Runs all closers in reverse order, even if some fail. */
async function closeAll(closers: readonly (() => Promise<unknown>)[]): Promise<void> {
  for (const close of closers.toReversed()) {
    await close().catch(() => undefined);
  }
}

type Tools = Pick<Scene, "disk" | "proxy" | "clock"> & { readonly postgres: Postgres };

/** Creates the targets of faults, each with its closer. Returns undefined if no disk can be mounted. */
async function openTools(
  common: Common,
  directory: string,
  { smallDisk, throughProxy = false, wrongClock }: Setting,
  closers: (() => Promise<unknown>)[],
): Promise<Tools | undefined> {
  const { stack } = common;
  let disk: SmallDisk | undefined;
  if (smallDisk !== undefined) {
    const size = smallDisk === "postgres" ? POSTGRES_DISK_MIB : LOG_DISK_MIB;
    const mounted = await mountSmallDisk(directory, size, stack.janitor);
    if (mounted === undefined) {
      return undefined;
    }
    closers.push(async () => await mounted.unmount());
    disk = mounted;
  }
  const postgres = smallDisk === "postgres" ? await startOwnPostgres(common, directory) : stack.postgres;
  if (postgres !== stack.postgres) {
    closers.push(async () => await postgres.stop());
  }
  const proxy = throughProxy ? await startTcpProxy(Number(new URL(postgres.adminUrl).port)) : undefined;
  closers.push(async () => await proxy?.close());
  return {
    disk,
    postgres,
    proxy,
    clock: wrongClock === undefined ? undefined : await createJumpingClock(directory),
  };
}

/** Starts Signet with the case's setting. Returns undefined if this machine cannot mount a disk. */
export async function preparePlace(
  common: Common,
  name: string,
  setting: Setting,
): Promise<Place | undefined> {
  const { load } = common;
  const { shape = {}, settings = {} } = setting;
  const directory = join(common.stack.directory, `own-${name}`);
  await mkdir(directory, { recursive: true });
  const closers: (() => Promise<unknown>)[] = [];
  try {
    const tools = await openTools(common, directory, setting, closers);
    if (tools === undefined) {
      return undefined;
    }
    const { postgres, disk, proxy, clock } = tools;
    const { NODE_OPTIONS: preload = "", ...clockSettings } = clock?.environment ?? {};
    const stack = { ...common.stack, postgres };
    const world = await World.create({
      name,
      stack,
      load,
      raised: {},
      profiles: undefined,
      shape: {
        ...shape,
        ...(setting.wrongClock === undefined ? {} : { [setting.wrongClock]: { node: [preload] } }),
        ...(setting.smallDisk === "log" ? { logs: directory } : {}),
      },
      ...(proxy === undefined ? {} : { databasePort: proxy.port }),
    });
    closers.push(
      async () => await world.drop(),
      async () => await disk?.free(),
    );
    await world.run({ ...settings, ...clockSettings } as Settings);
    return { scene: { stack, world, load, disk, proxy, clock }, close: async () => await closeAll(closers) };
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

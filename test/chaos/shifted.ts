/** A world whose PostgreSQL and processes have another clock. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Client, Connection } from "@temporalio/client";
import { WORKFLOW_TYPES } from "../../workflows/messages.ts";
import { type Postgres, startPostgres } from "../bench/environment/postgres.ts";
import type { Settings, Shape } from "../bench/environment/signet.ts";
import { World } from "../bench/environment/world.ts";
import type { Scene } from "./trial.ts";

const FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/** What shifts the wall clock of a process, by its environment. Monotonic time and timers stay. */
export const SHIFTED: Settings = {
  LD_PRELOAD: FAKETIME,
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
  DONT_FAKE_MONOTONIC: "1",
  NO_FAKE_STAT: "1",
  FAKETIME_DISABLE_SHM: "1",
};

export interface ShiftedWorld {
  readonly world: World;
  readonly postgres: Postgres;
  /** Stops the processes and removes the data. */
  readonly close: () => Promise<void>;
}

interface Shift {
  /** What shifts PostgreSQL's clock, and those of Signet's processes. PostgreSQL reads it at each start. */
  readonly environment: Settings;
  readonly signet: Settings;
  readonly shape?: Shape;
  readonly settings: Settings;
}

/** Stops the case's world, and starts PostgreSQL and Signet with other clocks in another one. Temporal's clock stays. */
export async function startShifted(
  { stack, load, world: own }: Pick<Scene, "stack" | "load" | "world">,
  { environment, signet, settings, shape }: Shift,
): Promise<ShiftedWorld> {
  if (!existsSync(FAKETIME)) {
    throw new Error("libfaketime is missing; .ci/programs installs it");
  }
  await own.stop();
  const directory = join(stack.directory, "shifted");
  await mkdir(directory, { recursive: true });
  const { janitor } = stack;
  const log = (): void => undefined;
  const postgres = await startPostgres({ directory, janitor, kind: "system", log, environment });
  let world: World | undefined;
  const close = async (): Promise<void> => {
    await world?.drop();
    await postgres.stop();
  };
  try {
    const options = { name: "shifted", stack: { ...stack, postgres }, load, ...(shape && { shape }) };
    world = await World.create({ ...options, raised: signet, profiles: undefined });
    await world.run(settings);
    return { world, postgres, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Runs the workflows of the upkeep as their schedules would. Temporal has the machine's clock. */
export async function runUpkeep({ temporalAddress, namespace }: World): Promise<void> {
  const connection = await Connection.connect({ address: temporalAddress });
  try {
    const client = new Client({ connection, namespace });
    const { purgeExpired, rotateCredentials, rotateSigningKeys, signCheckpoint } = WORKFLOW_TYPES;
    for (const name of [purgeExpired, rotateCredentials, rotateSigningKeys, signCheckpoint]) {
      await client.schedule.getHandle(name).trigger();
    }
  } finally {
    await connection.close();
  }
}

/** A world whose PostgreSQL, Temporal and processes have another clock than the machine. */
import { execFile } from "node:child_process";
import { mkdir, open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client, Connection } from "@temporalio/client";
import { WORKFLOW_TYPES } from "#workflows/messages.ts";
import { loadConfig, processEnvironment } from "#config/config.ts";
import { startPostgres } from "#test/bench/environment/postgres.ts";
import type { Settings } from "#test/bench/environment/signet.ts";
import { startTemporal } from "#test/bench/environment/temporal.ts";
import { findGo, type TemporalBuild } from "#test/bench/environment/temporal-programs.ts";
import { World } from "#test/bench/environment/world.ts";
import type { SetScene } from "../cases.ts";
import type { CaseOutcome } from "../result.ts";

const SOURCE = fileURLToPath(new URL("../shifted-clock.c", import.meta.url));
const GO_SOURCE = fileURLToPath(new URL("../shifted-clock.go", import.meta.url));
/** Where Go reads the wall clock. */
const GO_NOW = "\tsec, nsec, mono := runtimeNow()\n";
/** Else a timer that a jump has made due would fire up to five minutes later. */
const LOOK_OFTEN = "history.timerProcessorMaxPollInterval:\n  - value: 2s\n";
const SECOND_MS = 1_000;
const SECONDS_BYTES = 8;

/** A wall clock that is ahead of the machine's. Monotonic time and timers stay. */
export class ShiftedClock {
  readonly environment: Settings;
  readonly #file: string;
  #shiftS = 0;

  private constructor(library: string, file: string) {
    this.environment = { LD_PRELOAD: library, TEST_CLOCK_SHIFT_FILE: file };
    this.#file = file;
  }

  /** Compiles the library that processes preload. It needs a C compiler. */
  static async create(directory: string): Promise<ShiftedClock> {
    const [library, file] = [join(directory, "shifted-clock.so"), join(directory, "shifted-clock")];
    await promisify(execFile)("cc", ["-shared", "-fPIC", "-O2", "-o", library, SOURCE]);
    await writeFile(file, Buffer.alloc(SECONDS_BYTES));
    return new ShiftedClock(library, file);
  }

  /** Moves the clock of all its processes at once. */
  async shiftTo(seconds: number): Promise<void> {
    this.#shiftS = seconds;
    const bytes = Buffer.alloc(SECONDS_BYTES);
    bytes.writeBigInt64LE(BigInt(seconds));
    const file = await open(this.#file, "r+");
    try {
      await file.write(bytes, 0, SECONDS_BYTES, 0);
    } finally {
      await file.close();
    }
  }

  now(): number {
    return Date.now() + this.#shiftS * SECOND_MS;
  }
}

/** Describes a build of Temporal's server whose Go reads the shifted clock. */
async function shiftedBuild(directory: string): Promise<TemporalBuild> {
  const { stdout } = await promisify(execFile)(findGo(), ["env", "GOROOT"]);
  const time = join(stdout.trim(), "src", "time");
  const original = await readFile(join(time, "time.go"), "utf8");
  if (original.split(GO_NOW).length !== 2) {
    throw new Error("this version of Go reads the clock elsewhere");
  }
  const [source, overlay] = [join(directory, "time.go"), join(directory, "overlay.json")];
  await writeFile(source, original.replace(GO_NOW, `${GO_NOW}\tsec += shiftSeconds()\n`));
  const replaced = { [join(time, "time.go")]: source, [join(time, "shift.go")]: GO_SOURCE };
  await writeFile(overlay, JSON.stringify({ Replace: replaced }));
  return { name: "shifted", environment: { GOFLAGS: `-overlay=${overlay}` } };
}

export interface Shifted {
  readonly world: World;
  readonly clock: ShiftedClock;
  /** Starts every process again. */
  readonly restart: () => Promise<void>;
}

interface Shift {
  /** How far the clock is ahead when the world is created. */
  readonly seconds: number;
  readonly settings: Settings;
}

/** Runs a case in a world of its own, whose PostgreSQL, Temporal and processes share a shifted clock. */
export async function inShiftedWorld(
  { stack, load, world: first }: SetScene,
  { seconds, settings }: Shift,
  run: (shifted: Shifted) => Promise<CaseOutcome>,
): Promise<CaseOutcome> {
  const { janitor } = stack;
  await first.stop();
  const directory = join(stack.directory, "shifted");
  await mkdir(directory, { recursive: true });
  const clock = await ShiftedClock.create(directory);
  await clock.shiftTo(seconds);
  const { environment } = clock;
  const log = (): void => undefined;
  const postgres = await startPostgres({ directory, janitor, kind: "system", log, environment });
  const closers = [async (): Promise<void> => await postgres.stop()];
  try {
    const temporal = await startTemporal({
      cache: loadConfig({ ...processEnvironment(), SIGNET_ENV: "development" }).cache,
      directory,
      postgres,
      janitor,
      pruneIndexes: true,
      log,
      build: await shiftedBuild(directory),
      environment: { TEST_CLOCK_SHIFT_FILE: environment["TEST_CLOCK_SHIFT_FILE"] ?? "" },
      dynamicConfig: LOOK_OFTEN,
    });
    closers.push(async () => await temporal.stop());
    const own = { ...stack, postgres, temporal };
    const world = await World.create({
      name: "shifted",
      stack: own,
      load,
      raised: environment,
      profiles: undefined,
    });
    closers.push(async () => await world.drop());
    await world.run(settings);
    const restart = async (): Promise<void> => {
      await world.stop();
      await postgres.process?.end();
      await postgres.process?.restart();
      await world.run(settings);
    };
    return await run({ world, clock, restart });
  } finally {
    for (const close of closers.toReversed()) {
      await close();
    }
  }
}

/** Runs the daily workflows, whose schedules do not run at the time of the jump. */
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

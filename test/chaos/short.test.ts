/**
 * The short chaos case: two kills in the middle of events, some of them to hostile receivers. Also behind a pooler, whose
 * sessions PostgreSQL's end breaks.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { Janitor } from "../bench/environment/janitor.ts";
import { startPostgres } from "../bench/environment/postgres.ts";
import type { Stack } from "../bench/environment/stack.ts";
import { foreignTemporal } from "../bench/environment/temporal.ts";
import { World } from "../bench/environment/world.ts";
import { LoadGenerator } from "../bench/load/load-generator.ts";
import { allowMinutes } from "../support/limits.ts";
import { type PoolMode, startPgBouncer, withoutPgBouncer } from "../support/pgbouncer.ts";
import { imageEnvironment, productionImage } from "../support/processes.ts";
import { SHORT_CASE } from "./cases.ts";
import { problemsOf } from "./result.ts";
import { runCase } from "./run-case.ts";
import { SHORT } from "./traffic.ts";

allowMinutes(5);

const log = (): void => undefined;
/** In session mode, one for each connection. */
const SESSIONS = { session: 120, transaction: 4 } as const;
const POOLERS: readonly ("none" | PoolMode)[] = withoutPgBouncer("kills behind PgBouncer")
  ? ["none"]
  : ["none", "session", "transaction"];

describe.each(POOLERS)("with the pooler %s", (pooler) => {
  const started: (() => Promise<unknown>)[] = [];
  let stack: Stack;
  let world: World;
  let load: LoadGenerator;

  /** The case kills its own PostgreSQL; it shares the test run's Temporal. */
  async function startStack(): Promise<Stack> {
    const directory = join(inject("runDirectory"), `chaos-${pooler}`);
    await mkdir(directory);
    const janitor = new Janitor();
    const postgres = await startPostgres({ directory, janitor, kind: "embedded", log });
    started.push(async () => {
      await postgres.stop();
      janitor.end();
    });
    const temporal = foreignTemporal(inject("temporalAddress"));
    return { directory, janitor, postgres, temporal, namespace: "chaos", stop: async () => undefined };
  }

  /** Returns the settings that lead the processes through the pooler. */
  async function throughPooler(): Promise<Readonly<Record<string, string>>> {
    if (pooler === "none") {
      return {};
    }
    const direct = world.serviceDatabaseUrl;
    const { username: user, password } = new URL(direct);
    const bouncer = await startPgBouncer({
      mode: pooler,
      sessions: SESSIONS[pooler],
      databaseUrl: direct,
      logins: [{ user, password }],
    });
    started.push(async () => await bouncer.close());
    return {
      SIGNET_DATABASE_URL: bouncer.through(direct),
      ...(pooler === "transaction" ? { SIGNET_DATABASE_DIRECT_URL: direct } : {}),
    };
  }

  beforeAll(async () => {
    const image = productionImage();
    stack = await startStack();
    load = new LoadGenerator();
    const options = {
      name: `short-${pooler}`,
      stack,
      load,
      raised: imageEnvironment(),
      profiles: undefined,
    };
    world = await World.create({ ...options, dist: join(image, "dist") });
    started.push(async () => {
      await world.stop();
      load.stop();
    });
    await world.run(await throughPooler());
  });

  afterAll(async () => {
    for (const stop of started.toReversed()) {
      await stop();
    }
  });

  test("every accepted event arrives although worker and PostgreSQL are killed and receivers reset, hang or respond slowly", async () => {
    const result = await runCase({ stack, world, load, quick: true }, SHORT_CASE, SHORT);
    expect(problemsOf(result), JSON.stringify(result)).toEqual([]);
    expect(result.ledger).toMatchObject({ accepted: SHORT.events, arrived: SHORT.events, lost: 0 });
  });
});

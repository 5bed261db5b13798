/**
 * Some of the cuts, for a second each. The seconds are those of `npm run test:chaos`, on a machine that does nothing else;
 * here, what is cut admits again, and no revoked token is admitted late.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { Janitor } from "../bench/environment/janitor.ts";
import { startPostgres } from "../bench/environment/postgres.ts";
import { foreignTemporal } from "../bench/environment/temporal.ts";
import { World } from "../bench/environment/world.ts";
import { LoadGenerator } from "../bench/load/load-generator.ts";
import { allowMinutes } from "../support/limits.ts";
import { imageEnvironment, productionImage } from "../support/processes.ts";
import { useStarted } from "../support/started.ts";
import { type Chain, CELL_SETTINGS, startChain } from "./cut-chain.ts";
import { type Cut, cutOnce } from "./scenarios/cuts.ts";
import type { Scene } from "./trial.ts";

allowMinutes(5);

const log = (): void => undefined;

/** The case's own PostgreSQL, whose login of another cell no other test sees. */
const made = useStarted("the chain", async () => {
  const closers: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.toReversed()) {
      await closer();
    }
  };
  try {
    const directory = join(inject("runDirectory"), "cuts");
    await mkdir(directory);
    const janitor = new Janitor();
    closers.push(async () => await Promise.resolve(janitor.end()));
    const postgres = await startPostgres({ directory, janitor, kind: "embedded", log });
    closers.push(async () => await postgres.stop());
    const temporal = foreignTemporal(inject("temporalAddress"));
    const stack = { directory, janitor, postgres, temporal, namespace: "cuts", stop: async () => undefined };
    const load = new LoadGenerator();
    closers.push(async () => await Promise.resolve(load.stop()));
    const world = await World.create({
      name: "cuts",
      stack,
      load,
      raised: imageEnvironment(),
      profiles: undefined,
      dist: join(productionImage(), "dist"),
    });
    closers.push(async () => await world.stop());
    await world.run(CELL_SETTINGS);
    const scene: Scene = { stack, world, load, quick: true };
    const chain: Chain = await startChain(scene, join(directory, "chain"));
    closers.push(async () => await chain.close());
    return { scene, chain, close };
  } catch (error) {
    await close();
    throw error;
  }
});

const SUBSET: readonly Omit<Cut, "seconds">[] = [
  { kind: "silent", link: "cell-postgres" },
  { kind: "reset", link: "hub-postgres" },
  { kind: "half-open", link: "hub-hub" },
  { kind: "silent", link: "edge-hub" },
  { kind: "late", link: "edge-hub" },
  { kind: "loss", link: "edge-postgres" },
];

for (const cut of SUBSET) {
  test(`after a ${cut.kind} cut of ${cut.link}, tokens are admitted again, and no revoked one late`, async () => {
    const { scene, chain } = made.current;
    const { finding } = await cutOnce(scene, chain, { ...cut, seconds: 1 });
    expect(finding).toMatchObject({ admitted_late: 0 });
    for (const seconds of Object.values(finding.again_s)) {
      expect(seconds).toBeLessThan(Infinity);
    }
  });
}

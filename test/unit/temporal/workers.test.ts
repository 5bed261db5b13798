import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { cachedWorkflows } from "#temporal/workers.ts";
import { readManifests } from "#test/support/manifests.ts";

const MIB = 2 ** 20;
/** Of a busy worker, of 4,096 connections to receivers, and of a workflow at its last attempts (docs/operations.md). */
const [PROCESS_MIB, CONNECTIONS_MIB, WORKFLOW_MIB] = [300, 240, 0.4];
const RESIDENT_MAX_MIB = 400;

const read = async (name: string): Promise<unknown> =>
  parse(await readFile(new URL(`../../../${name}`, import.meta.url), "utf8"), { merge: true });

/** Returns the worker's limits in the files that ship, in bytes. */
async function shippedLimits(): Promise<number[]> {
  const compose = (await read("docker-compose.yml")) as {
    readonly services: { readonly worker: { readonly deploy: { readonly resources: Resources } } };
  };
  const chart = (await read("deploy/helm/signet/values.yaml")) as {
    readonly worker: { readonly resources: Resources };
  };
  const manifests = (await readManifests("base"))
    .filter(({ kind, metadata }) => kind === "Deployment" && metadata.name === "signet-worker")
    .map(({ spec }) => spec?.template?.spec.containers[0] as unknown as { readonly resources: Resources });
  const all = [
    compose.services.worker.deploy.resources,
    chart.worker.resources,
    ...manifests.map(({ resources }) => resources),
  ];
  return all.map(({ limits }) => Number.parseInt(limits.memory, 10) * MIB);
}

interface Resources {
  readonly limits: { readonly memory: string };
}

test("a worker stays below 400 MiB with as many workflows as it caches in compose file, chart and manifests", async () => {
  const limits = await shippedLimits();
  expect(limits).toHaveLength(3);
  for (const limit of limits) {
    const mib = PROCESS_MIB + WORKFLOW_MIB * cachedWorkflows(limit);
    expect(mib).toBeLessThanOrEqual(RESIDENT_MAX_MIB);
    expect(mib + CONNECTIONS_MIB).toBeLessThan(limit / MIB);
  }
});

test.each([
  [768, 240],
  [2_048, 640],
  [65_536, 1_000],
  [64, 64],
])("with %i MiB, a worker caches %i workflows", (mib, workflows) => {
  expect(cachedWorkflows(mib * MIB)).toBe(workflows);
});

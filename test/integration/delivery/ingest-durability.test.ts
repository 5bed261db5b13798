/** Nothing is lost after a 202, even if the api process is killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { answerOf } from "#test/support/child-answer.ts";
import { freePort } from "#test/support/free-port.ts";
import { bearer } from "#test/support/factories.ts";
import { imageEnvironment, productionImage } from "#test/support/processes.ts";
import { createEndpoint, createTenant, type Json, sql } from "#test/support/tenant.ts";

const api = useSharedApi();
const EVENTS = 40;
const children = new Set<ChildProcess>();

afterEach(() => {
  for (const child of children) {
    child.kill("SIGKILL");
  }
  children.clear();
});

/** A second api process on the same database. */
async function startVictim(): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const port = await freePort();
  const child = spawn(process.execPath, ["dist/src/processes/main.js", "api"], {
    cwd: productionImage(),
    env: {
      PATH: process.env["PATH"],
      ...imageEnvironment(),
      ...api.environment,
      SIGNET_API_LISTEN: `127.0.0.1:${port}`,
      SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
      SIGNET_METRICS_LISTEN: `127.0.0.1:${await freePort()}`,
      SIGNET_LOG_LEVEL: "silent",
    },
    stdio: "ignore",
  });
  children.add(child);
  const url = `http://127.0.0.1:${port}`;
  const listens = async (): Promise<boolean> =>
    await fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await answerOf(child, listens, "the api process listened");
  return { url, child };
}

test.each([1, 10])(
  "all answered events exist after the process is killed following %i answers",
  async (after) => {
    const tenant = await createTenant(api);
    await createEndpoint(api, tenant, { events: ["a.b"] });
    await createEndpoint(api, tenant, { events: ["*"] });
    const { url, child } = await startVictim();
    const answered: Json[] = [];
    const killed = once(child, "exit");

    async function publish(n: number): Promise<void> {
      const send = async (): Promise<Json> => {
        const response = await fetch(`${url}/v1/events`, {
          method: "POST",
          headers: {
            ...bearer(tenant.token),
            "content-type": "application/json",
            "idempotency-key": `k${n}`,
          },
          body: JSON.stringify({ type: "a.b", data: { n } }),
        });
        // The status line is the promise; the rest may be cut off.
        return (await response.json()) as Json;
      };
      let body = await send();
      // Until the process hears revocations. `unlessStale` would go on after its death.
      while (body["code"] === "REVOCATION_STALE") {
        body = await send();
      }
      answered.push({ ...body, n });
      if (answered.length === after) {
        child.kill("SIGKILL");
      }
    }
    const outcomes = await Promise.allSettled(
      Array.from({ length: EVENTS }, async (_, n) => await publish(n)),
    );
    expect(await killed).toEqual([null, "SIGKILL"]);

    expect(answered.length).toBeGreaterThanOrEqual(after);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(answered.length);
    const stored = await sql<{ id: string; deliveries: number; rows: number }>(
      api,
      `SELECT e.id, e.deliveries, (SELECT count(*)::int FROM deliveries d WHERE d.event_id = e.id) AS rows
      FROM events e WHERE e.tenant_id = $1`,
      [tenant.tenantId],
    );
    const byId = new Map(stored.map((row) => [row.id, row]));
    expect(answered.map(({ id }) => byId.get(String(id)))).toEqual(
      answered.map(({ id }) => ({ id, deliveries: 2, rows: 2 })),
    );
    for (const { id, n } of answered) {
      expect((await tenant.get(`/v1/events/${String(id)}`)).body).toMatchObject({ data: { n } });
    }
    // Unanswered events exist completely or not at all, and resending everything completes them.
    expect(stored.filter((row) => row.rows !== 2)).toEqual([]);
    const again = await Promise.all(
      Array.from(
        { length: EVENTS },
        async (_, n) =>
          (await tenant.post("/v1/events", { type: "a.b", data: { n } }, { "idempotency-key": `k${n}` }))
            .body["id"],
      ),
    );
    expect(again).toEqual(expect.arrayContaining(answered.map(({ id }) => id)));
    expect(new Set(again).size).toBe(EVENTS);
  },
);

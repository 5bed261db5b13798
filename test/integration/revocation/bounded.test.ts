/** Bounded mode: tokens are admitted without the database for up to the bound, which is reported. */
import { expect, inject, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { startDatabase, stopDatabase } from "#test/support/database-outage.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { startSecondApi } from "#test/support/second-api.ts";
import { startTcpProxy } from "#test/support/tcp-proxy.ts";

const BOUND_MS = 3_000;
const api = useTestApi({
  environment: {
    SIGNET_REVOCATION_MODE: `bounded:${BOUND_MS}`,
    SIGNET_REGION: "eu-west-1",
    // Any namespace: no workflow runs in it, but readiness checks it.
    TEMPORAL_NAMESPACE: inject("temporalNamespaces")[0],
  },
});

test("a receipt names the region of each process", async () => {
  const { clientId: target } = await provision(api);
  const { body } = await api.admin("POST", "/revocations", { target });
  expect((body["edges"] as { processes: unknown }).processes).toEqual([
    expect.objectContaining({ kind: "api", region: "eu-west-1" }),
  ]);
});

test("a receipt does not call a silent process safe before its bound", async () => {
  const proxy = await startTcpProxy(Number(new URL(api.database.url).port));
  const second = await startSecondApi(api, proxy.port);
  try {
    const outcomeOf = async ({ clientId: target }: Provisioned): Promise<unknown> => {
      const { body } = await api.admin("POST", "/revocations", { target });
      return (body["edges"] as { outcome: unknown }).outcome;
    };
    await withoutPause(async () => {
      proxy.thaw();
      await eventually(async () => (await outcomeOf(await provision(api))) === "applied", "both processes");
      const client = await provision(api);
      proxy.freeze();
      expect(await outcomeOf(client)).toBe("pending");
    });
  } finally {
    proxy.thaw();
    await second.close();
    await proxy.close();
  }
});

test("tokens are admitted without the database up to the bound, which /readyz and the log report", async () => {
  const client = await provision(api, { scopes: ["events:publish"] });
  const token = await accessToken(api, client);
  const probe = async (): Promise<unknown> => {
    const { status, body } = await api.requestOnce("/v1/events", {
      method: "POST",
      headers: { ...bearer(token), "content-type": "application/json" },
      body: "{}",
    });
    return status === 422 ? "admitted" : body["code"];
  };
  expect((await api.request("/readyz")).body).toEqual({
    status: "ready",
    revocation: { mode: "bounded", bound_ms: BOUND_MS },
  });
  expect(api.log.some((line) => line.includes("may be admitted for longer than 250 ms"))).toBe(true);

  const service = { config: { databaseUrl: api.database.url } };
  await withoutPause(async () => {
    // Loads the tenant's policy: without it, no token is admitted.
    await eventually(async () => (await probe()) === "admitted", "admission");
    const stoppingAt = performance.now();
    const stopping = stopDatabase(service).then(() => performance.now());
    try {
      let lastAdmitted = 0;
      await eventually(async () => {
        const sentAt = performance.now();
        const outcome = await probe();
        lastAdmitted = outcome === "admitted" ? sentAt : lastAdmitted;
        return outcome === "REVOCATION_STALE";
      }, "the end of the bound");
      expect(lastAdmitted - stoppingAt).toBeGreaterThan(BOUND_MS / 2);
      expect(lastAdmitted - (await stopping)).toBeLessThanOrEqual(BOUND_MS);
    } finally {
      await startDatabase(service);
    }
  });
  await eventually(async () => (await probe()) === "admitted", "admission");
});

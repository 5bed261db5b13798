/**
 * A cell that is wrong about the time as a whole: PostgreSQL, api and worker of one hypervisor. The home cell is right.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { useTestApi } from "../support/api.ts";
import { call, callOnce, CELL_SCOPES, createCellLogin } from "../support/cells.ts";
import { eventually } from "../support/eventually.ts";
import { accessToken, provision } from "../support/factories.ts";
import { freePorts } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { startOwnDatabase } from "../support/own-database.ts";
import { spawnSignet } from "../support/processes.ts";
import { testNamespace } from "../support/services.ts";
import { skipUnless } from "../support/skips.ts";
import { useStarted } from "../support/started.ts";

allowMinutes(5);

const [LIBRARY] = globSync("/usr/lib/*/faketime/libfaketimeMT.so.1");
const SKIPPED = skipUnless(
  LIBRARY !== undefined,
  "a cell with another clock",
  "libfaketime is missing: .ci/programs installs it",
);
const BEHIND_S = 900;
const READY_MS = 120_000;

const [homePort = 0, usPort = 0, metricsPort = 0] = await freePorts(3);
const homeUrl = `http://127.0.0.1:${homePort}`;
const usUrl = `http://127.0.0.1:${usPort}`;
const metricsUrl = `http://127.0.0.1:${metricsPort}`;
const cells = { SIGNET_CELLS: `eu=${homeUrl},us=${usUrl}`, SIGNET_PUBLIC_URL: homeUrl };
const home = useTestApi({
  environment: { ...cells, SIGNET_CELL: "eu", SIGNET_API_LISTEN: new URL(homeUrl).host },
});

/** Starts the cell. Its processes are never ready, so it counts as started when they answer. */
async function startCell(library: string) {
  const clock = {
    LD_PRELOAD: library,
    FAKETIME: `-${BEHIND_S}s`,
    DONT_FAKE_MONOTONIC: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
  };
  const database = await startOwnDatabase(clock);
  const environment: Environment = {
    ...home.environment,
    ...cells,
    ...clock,
    SIGNET_CELL: "us",
    SIGNET_API_LISTEN: new URL(usUrl).host,
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
    SIGNET_DATABASE_URL: database.url,
    SIGNET_DATABASE_DIRECT_URL: database.url,
    SIGNET_HOME_DATABASE_URL: await createCellLogin(home, "us"),
    TEMPORAL_NAMESPACE: await testNamespace(),
    SIGNET_HOME: join(inject("runDirectory"), "wrong-cell"),
  };
  const api = spawnSignet(["api"], environment);
  const worker = spawnSignet(["worker"], {
    ...environment,
    SIGNET_METRICS_LISTEN: new URL(metricsUrl).host,
  });
  const close = async (): Promise<void> => {
    await Promise.all([api.stop("SIGKILL"), worker.stop("SIGKILL")]);
    await database.drop();
  };
  try {
    for (const url of [usUrl, metricsUrl]) {
      await eventually(
        async () => {
          const ended = [api, worker].find((process) => process.state() !== undefined);
          if (ended !== undefined) {
            throw new Error(`a process of the cell ended:\n${ended.output()}`);
          }
          return (await fetch(`${url}/healthz`)).ok;
        },
        `${url} to answer`,
        READY_MS,
      );
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { environment, close };
}

const cell = useStarted("the cell", async () =>
  LIBRARY === undefined ? { environment: {}, close: async () => {} } : await startCell(LIBRARY),
);

test.skipIf(SKIPPED)(
  "a cell that is 15 minutes behind as a whole admits fresh tokens and no revoked ones, and says that its clock is wrong",
  async () => {
    const client = await provision(home, { region: "us", scopes: CELL_SCOPES });
    const path = "/v1/webhooks/endpoints";
    const first = await accessToken(home, client);
    await eventually(
      async () => (await call(usUrl, first, path)).status !== 503,
      "the cell to know the tenant",
    );
    const fresh = await accessToken(home, client);
    expect(await call(usUrl, fresh, path)).toMatchObject({ status: 200 });
    await home.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
    for (const token of [first, fresh]) {
      expect(await call(usUrl, token, path)).toMatchObject({ status: 401, body: { code: "TOKEN_REVOKED" } });
    }

    const notReady = { status: 503, body: { failing: ["clock"] } };
    expect(await callOnce(usUrl, "", "/readyz")).toMatchObject(notReady);
    expect((await fetch(`${metricsUrl}/readyz`)).status).toBe(503);
    const metrics = await eventually(async () => {
      const text = await (await fetch(`${metricsUrl}/metrics`)).text();
      return /^signet_home_clock_skew_seconds(?:\{[^}]*\})? -\d/m.test(text) && text;
    }, "the worker to measure");
    const gauge = (name: string): number =>
      Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "m").exec(metrics)?.[1]);
    expect(Math.abs(gauge("signet_home_clock_skew_seconds") + BEHIND_S)).toBeLessThan(2);
    // The machine and its own database agree, so nothing else would notice.
    expect(Math.abs(gauge("signet_clock_skew_seconds"))).toBeLessThan(2);

    const doctor = spawnSignet(["doctor"], cell.current.environment);
    expect((await doctor.ended).code).toBe(1);
    expect(doctor.output()).toMatch(
      /the database's clock is (?:89\d|90\d)\d{3} ms from that of the home cell/,
    );
  },
);

/**
 * Revocation at deployed edges: separate processes of the production build, on one PostgreSQL. Each reports by
 * CLOCK_MONOTONIC when it admitted a token: responses may leave late, admissions may not happen late.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { useTestApi } from "../support/api.ts";
import {
  committedAt,
  EDGE_SCOPE,
  type EdgeChild,
  endConnections,
  type Holder,
  revokeCredential,
  type Revoked,
  startEdgeProcesses,
  tokenHolder,
  useAsking,
  verdictOf,
} from "../support/edge-processes.ts";
import { grant, provision, type Provisioned } from "../support/factories.ts";
import { monotonicMs } from "../support/monotonic.ts";
import { type OwnDatabase, startOwnDatabase } from "../support/own-database.ts";
import { withoutPause } from "../support/pauses.ts";
import { useStarted } from "../support/started.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { sql } from "../support/tenant.ts";

/** From contract 8. */
const BOUND_MS = 250;
/** One of them reaches PostgreSQL through a proxy that can freeze. */
const EDGES = 21;
const ROUNDS = 5;
const RACES = 4;
const TOKENS_PER_RACE = 25;

let database: OwnDatabase;
let proxy: TcpProxy | undefined;
const api = useTestApi({
  database: async () => {
    database = await startOwnDatabase();
    return database;
  },
});
const made = useStarted("the edges", async () => {
  const port = Number(new URL(database.url).port);
  proxy = await startTcpProxy(port);
  const direct = Array.from({ length: EDGES - 1 }, () => port);
  const settings = [proxy.port, ...direct].map((each) => {
    const url = new URL(api.database.url);
    url.port = String(each);
    return { SIGNET_DATABASE_URL: url.href };
  });
  return await startEdgeProcesses({ api, settings });
});
afterAll(async () => await proxy?.close());

/** Token that stays valid, to show that an edge serves; the other is revoked. */
let live: string;
let victim: Provisioned;
let lost: string;

const client = async (): Promise<Holder> => await tokenHolder(api);
const revoke = async (revoked: Provisioned): Promise<Revoked> => await revokeCredential(api, revoked);

/** Returns the edge behind the proxy, and one with a direct connection. */
function someEdges(): { readonly distant: EdgeChild; readonly direct: EdgeChild } {
  const [distant, direct] = made.current.edges;
  if (distant === undefined || direct === undefined) {
    throw new Error("no edges are running");
  }
  return { distant, direct };
}

const asking = useAsking(() => made.current.edges);

/** Creates two clients that all edges admit. */
async function begin(): Promise<void> {
  ({ token: live } = await client());
  ({ client: victim, token: lost } = await client());
  for (const token of [live, lost]) {
    const before = asking.start(token);
    await before.until(EDGES, "admitted", 1);
    await before.stop();
  }
}

/** Measures with clients of its own, while the machine runs. */
async function measure(check: () => Promise<void>): Promise<void> {
  await withoutPause(async () => {
    try {
      await begin();
      await check();
    } finally {
      proxy?.thaw();
      await asking.stop();
    }
  });
}

describe(`a revocation, with ${EDGES} edges under continuous requests`, () => {
  test("ends the token everywhere: the last admission is at most 250 ms after the commit", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      await measure(async () => {
        const asked = asking.start(lost);
        await asked.until(EDGES, "admitted");
        const { at } = await revoke(victim);
        await asked.until(EDGES, "TOKEN_REVOKED");
        await asked.stop();
        expect(asked.lastAdmission() - at).toBeLessThanOrEqual(BOUND_MS);
      });
    }
  });

  test("has a receipt from all of them", async () => {
    await measure(async () => {
      const { edges } = await revoke(victim);
      // The api admits tokens too.
      expect(edges).toMatchObject({ live: EDGES + 1, acked: EDGES + 1, outcome: "applied" });
      const kinds = edges.processes.map(({ kind }) => kind);
      expect(kinds.toSorted()).toEqual(["api", ...Array.from({ length: EDGES }, () => "edge")]);
      expect(edges.max_ms).toBeLessThanOrEqual(BOUND_MS);
    });
  });

  test("without a notification ends the token within 250 ms", async () => {
    await measure(async () => {
      const asked = asking.start(lost);
      await asked.until(EDGES, "admitted");
      const id = newId("revocation", 0, randomBytes);
      await sql(
        api,
        `WITH clock AS (UPDATE rev_clock SET seq = seq + 1 RETURNING seq)
         INSERT INTO revocations (seq, id, kind, target, actor, at, log_index, leaf_hash)
         SELECT seq, $1, 'credential', $2, 'system:test', clock_timestamp(), 0, '' FROM clock`,
        [id, victim.credentialId],
      );
      const at = await committedAt(api, id);
      await asked.until(EDGES, "TOKEN_REVOKED");
      await asked.stop();
      expect(asked.lastAdmission() - at).toBeLessThanOrEqual(BOUND_MS);
    });
  });

  test(`also ends tokens issued meanwhile, with ${RACES * TOKENS_PER_RACE} requested`, async () => {
    let issued = 0;
    for (let race = 0; race < RACES; race += 1) {
      await measure(async () => {
        const racing = await provision(api, { scopes: [EDGE_SCOPE] });
        const asked = Array.from({ length: TOKENS_PER_RACE }, async (_, number) => {
          await delay(number % 10);
          const { status, body } = await api.token(grant(racing));
          expect([200, 401]).toContain(status);
          const token = String(body["access_token"]);
          const edge = made.current.edges[number % EDGES];
          return status === 200 ? [{ token, first: await edge?.ask(token) }] : [];
        });
        // The last revocation comes after a token, so that at least one is issued.
        await (race < RACES - 1 ? delay(2 * race) : Promise.race(asked));
        const { at } = await revoke(racing);
        const tokens = (await Promise.all(asked)).flat();
        issued += tokens.length;
        expect(tokens.filter(({ first }) => (first?.admittedAt ?? 0) > at + BOUND_MS)).toEqual([]);
        for (const { token } of tokens.slice(0, 1)) {
          const after = asking.start(token);
          await after.until(EDGES, "TOKEN_REVOKED", 1);
          await after.stop();
        }
        for (const { token } of tokens) {
          const answers = await Promise.all(
            made.current.edges.map(async (edge) => await verdictOf(edge, token)),
          );
          expect(answers.filter(({ outcome }) => outcome !== "TOKEN_REVOKED")).toEqual([]);
        }
      });
    }
    expect(issued).toBeGreaterThan(0);
  });
});

describe("an edge", () => {
  test("with a frozen connection admits nobody 250 ms later, reports that, and later applies what it missed", async () => {
    await measure(async () => {
      const { distant } = someEdges();
      const [others, revoked] = [asking.start(live, [distant]), asking.start(lost, [distant])];
      await Promise.all([others.until(1, "admitted"), revoked.until(1, "admitted")]);
      const line = proxy as TcpProxy;
      const frozenAt = monotonicMs();
      line.freeze();
      const { edges } = await revoke(victim);
      expect(edges.acked).toBeLessThan(edges.live);
      expect(edges.outcome).toBe("slow_but_safe");
      expect(edges.processes).toContainEqual(
        expect.objectContaining({ kind: "edge", state: "lease_expired" }),
      );
      await Promise.all([others.until(1, "REVOCATION_STALE", 10), revoked.until(1, "REVOCATION_STALE", 10)]);
      expect(others.lastAdmission() - frozenAt).toBeLessThanOrEqual(BOUND_MS);
      line.thaw();
      await Promise.all([others.until(1, "admitted"), revoked.until(1, "TOKEN_REVOKED")]);
      await Promise.all([others.stop(), revoked.stop()]);
      expect(revoked.lastAdmission() - frozenAt).toBeLessThanOrEqual(BOUND_MS);
    });
  });

  test("that was stopped during a revocation does not admit the token when it continues", async () => {
    await begin();
    const { direct } = someEdges();
    onTestFinished(() => direct.process.signal("SIGCONT"));
    direct.process.signal("SIGSTOP");
    const { edges } = await revoke(victim);
    expect(edges.acked).toBeLessThan(edges.live);
    const waiting = Array.from({ length: 50 }, () => direct.send(lost));
    await Promise.all(waiting.map(async ({ sent }) => await sent));
    direct.process.signal("SIGCONT");
    const answers = await Promise.all(waiting.map(async ({ answer }) => await answer));
    expect(answers.filter(({ outcome }) => outcome === "admitted")).toEqual([]);
    const [after, others] = [asking.start(lost, [direct]), asking.start(live, [direct])];
    await Promise.all([after.until(1, "TOKEN_REVOKED"), others.until(1, "admitted")]);
    await Promise.all([after.stop(), others.stop()]);
    expect(after.lastAdmission()).toBe(-Infinity);
  });
});

describe("PostgreSQL", () => {
  test("that ends all edges' connections causes no late admission", async () => {
    await measure(async () => {
      const [others, revoked] = [asking.start(live), asking.start(lost)];
      await Promise.all([others.until(EDGES, "admitted"), revoked.until(EDGES, "admitted")]);
      await endConnections(api, "signet_edge", EDGES);
      const { at } = await revoke(victim);
      await revoked.until(EDGES, "TOKEN_REVOKED");
      await others.until(EDGES, "admitted");
      await Promise.all([others.stop(), revoked.stop()]);
      expect(revoked.lastAdmission() - at).toBeLessThanOrEqual(BOUND_MS);
    });
  });

  test("that is restarted causes 503 until it is back, and never admits a revoked token", async () => {
    await measure(async () => {
      const [others, revoked] = [asking.start(live), asking.start(lost)];
      await Promise.all([others.until(EDGES, "admitted"), revoked.until(EDGES, "admitted")]);
      const { at } = await revoke(victim);
      await database.stop();
      try {
        const stoppedAt = monotonicMs();
        await others.until(EDGES, "REVOCATION_STALE");
        expect(others.lastAdmission() - stoppedAt).toBeLessThanOrEqual(BOUND_MS);
      } finally {
        await database.start();
      }
      await others.until(EDGES, "admitted");
      await revoked.until(EDGES, "TOKEN_REVOKED");
      await Promise.all([others.stop(), revoked.stop()]);
      expect(revoked.lastAdmission() - at).toBeLessThanOrEqual(BOUND_MS);
    });
  });
});

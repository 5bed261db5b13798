/** Admission after a revocation, and while revocations are unknown: two api processes on one database, over HTTP. */
import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { Client } from "pg";
import { newId } from "#domain/ids.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { type SecondApi, startSecondApi } from "#test/support/second-api.ts";
import { startTcpProxy, type TcpProxy } from "#test/support/tcp-proxy.ts";
import { sql } from "#test/support/tenant.ts";

/** Contract 8. */
const BOUND_MS = 250;
const SCOPES = ["credentials:read", "credentials:revoke", "events:publish"];
const api = useTestApi();
let proxy: TcpProxy;
let second: SecondApi;
let client: Provisioned;
let token: string;

type Ask = (path: string, init?: RequestInit) => Promise<Answer>;
type Outcome = "admitted" | "TOKEN_REVOKED" | "REVOCATION_STALE";

/** Sends a body that is rejected right after admission, so that the outcome depends only on admission. */
async function probe(ask: Ask, access = token): Promise<Outcome> {
  const { status, body } = await ask("/v1/events", {
    method: "POST",
    headers: { ...bearer(access), "content-type": "application/json" },
    body: "{}",
  });
  const outcome = status === 422 ? "admitted" : body["code"];
  expect(["admitted", "TOKEN_REVOKED", "REVOCATION_STALE"]).toContain(outcome);
  return outcome as Outcome;
}

const first: Ask = async (path, init) => await api.requestOnce(path, init);
const other: Ask = async (path, init) => await second.requestOnce(path, init);
/** The same, but as clients that repeat what a process without news of revocations rejects. */
const patient: readonly Ask[] = [
  async (path, init) => await api.request(path, init),
  async (path, init) => await second.request(path, init),
];

/** Creates a client, and waits until both processes admit it. */
async function begin(): Promise<void> {
  proxy.thaw();
  client = await provision(api, { scopes: SCOPES });
  token = await accessToken(api, client);
  await eventually(async () => (await probe(first)) === "admitted", "admission by the first process");
  await eventually(async () => (await probe(other)) === "admitted", "admission by the second process");
}

/** Revokes the token of a new client. Neither process may admit it later than 250 ms afterwards. */
async function expectEndBy(revoke: () => Promise<unknown>): Promise<void> {
  await withoutPause(async () => {
    await begin();
    await revoke();
    const revokedAt = performance.now();
    for (const ask of [first, other]) {
      const probed = await probeUntil(ask, (all) => all.at(-1)?.outcome === "TOKEN_REVOKED");
      expect(admittedAfter(revokedAt + BOUND_MS, probed)).toEqual([]);
    }
  });
}

interface Probed {
  readonly outcome: Outcome;
  /** Time of sending, by the test's clock, in milliseconds. */
  readonly sentAt: number;
}

/** Sends requests continuously, without waiting for answers, until `until` holds; returns all outcomes. */
async function probeUntil(ask: Ask, until: (probed: readonly Probed[]) => boolean): Promise<Probed[]> {
  const probed: Probed[] = [];
  const underWay: Promise<unknown>[] = [];
  await eventually(() => {
    const sentAt = performance.now();
    underWay.push(probe(ask).then((outcome) => probed.push({ outcome, sentAt })));
    return until(probed);
  }, "the outcome");
  await Promise.all(underWay);
  return probed.toSorted((left, right) => left.sentAt - right.sentAt);
}

function admittedAfter(at: number, probed: readonly Probed[]): readonly Probed[] {
  return probed.filter(({ sentAt, outcome }) => sentAt > at && outcome === "admitted");
}

const stale = (probed: readonly Probed[]): boolean =>
  probed.filter(({ outcome }) => outcome === "REVOCATION_STALE").length >= 10;

async function revokeCredential(reason?: string): Promise<Answer> {
  return await api.request(`/v1/credentials/${client.credentialId}/revoke`, {
    method: "POST",
    headers: { ...bearer(token), ...(reason === undefined ? {} : { "content-type": "application/json" }) },
    ...(reason === undefined ? {} : { body: JSON.stringify({ reason }) }),
  });
}

async function asSuperuser(...statements: readonly string[]): Promise<void> {
  const superuser = new Client({ connectionString: inject("databaseUrl") });
  await superuser.connect();
  try {
    for (const statement of statements) {
      await superuser.query(statement);
    }
  } finally {
    await superuser.end();
  }
}

const terminate = (): string =>
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${api.database.name}'`;

beforeAll(async () => {
  proxy = await startTcpProxy(Number(new URL(api.database.url).port));
  second = await startSecondApi(api, proxy.port);
});
afterAll(async () => {
  await second.close();
  await proxy.close();
});
beforeEach(begin);
afterEach(() => {
  proxy.thaw();
});

describe("a revocation", () => {
  test("ends the token in every process within 250 ms, and the client gets no other one", async () => {
    const died = (probed: readonly Probed[]): boolean =>
      probed.filter(({ outcome }) => outcome === "TOKEN_REVOKED").length >= 20;
    await withoutPause(async () => {
      await begin();
      const probing = [probeUntil(first, died), probeUntil(other, died)];
      expect(await revokeCredential("laptop lost")).toMatchObject({ status: 200 });
      const revokedAt = performance.now();
      for (const probed of await Promise.all(probing)) {
        expect(admittedAfter(revokedAt + BOUND_MS, probed)).toEqual([]);
      }
    });
    for (const ask of [first, other]) {
      const refused = await ask("/v1/auth/token", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(grant(client)),
      });
      expect(refused).toMatchObject({ status: 401, body: { error: "invalid_client" } });
    }
  });

  test("is answered 401 TOKEN_REVOKED, with the challenge of RFC 6750", async () => {
    await expectEndBy(revokeCredential);
    const answer = await api.request("/v1/credentials", { headers: bearer(token) });
    expect(answer).toMatchObject({ status: 401, body: { code: "TOKEN_REVOKED" } });
    expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="service", error="invalid_token"');
  });

  test("whose notification was lost takes effect within 250 ms", async () => {
    await expectEndBy(async () => {
      const published = await sql<{ seq: number }>(
        api,
        `WITH clock AS (UPDATE rev_clock SET seq = seq + 1 RETURNING seq)
         INSERT INTO revocations (seq, id, kind, target, actor, at, log_index, leaf_hash)
         SELECT seq, $1, 'credential', $2, 'system:test', now(), 0, '' FROM clock RETURNING seq`,
        [newId("revocation", 0, randomBytes), client.credentialId],
      );
      expect(published).toHaveLength(1);
    });
  });

  test.each([
    ["its principal", () => `/principals/${client.principalId}/revoke`],
    ["its tenant", () => `/tenants/${client.tenantId}/revoke`],
  ])("of %s also ends a token, and no other one is issued", async (_name, path) => {
    await expectEndBy(async () => {
      expect(await api.admin("POST", path(), { reason: "gone" })).toMatchObject({ status: 200 });
    });
    expect(await api.token(grant(client))).toMatchObject({ status: 401, body: { error: "invalid_client" } });
  });

  test("of one token by its id does not affect the client's other tokens", async () => {
    let another = "";
    await expectEndBy(async () => {
      another = await accessToken(api, client);
      const { jti } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
        jti: string;
      };
      expect(await api.admin("POST", "/revocations", { kind: "jti", target: jti })).toMatchObject({
        status: 200,
      });
    });
    for (const ask of patient) {
      expect(await probe(ask, another)).toBe("admitted");
    }
  });

  test("is known to a process that starts later", async () => {
    await revokeCredential();
    const late = await startSecondApi(api);
    try {
      expect(await probe(async (path, init) => await late.request(path, init))).toBe("TOKEN_REVOKED");
    } finally {
      await late.close();
    }
  });
});

describe("a process with a frozen database connection", () => {
  test("admits nothing after 250 ms, and applies missed revocations once it receives again", async () => {
    await withoutPause(async () => {
      await begin();
      proxy.freeze();
      const frozenAt = performance.now();
      expect(await revokeCredential()).toMatchObject({ status: 200 });
      const late = (await probeUntil(other, stale)).filter(({ sentAt }) => sentAt > frozenAt + BOUND_MS);
      expect(late.length).toBeGreaterThan(0);
      expect(late.filter(({ outcome }) => outcome !== "REVOCATION_STALE")).toEqual([]);
    });
    const refused = await second.requestOnce("/v1/credentials", { headers: bearer(token) });
    expect(refused).toMatchObject({ status: 503, body: { code: "REVOCATION_STALE" } });
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await second.requestOnce("/readyz")).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
    proxy.thaw();
    const thawed = await probeUntil(other, (all) => all.some(({ outcome }) => outcome === "TOKEN_REVOKED"));
    expect(thawed.map(({ outcome }) => outcome)).not.toContain("admitted");
  });

  test("admits unrevoked tokens again once the connection is back", async () => {
    proxy.freeze();
    await probeUntil(other, (all) => all.some(({ outcome }) => outcome === "REVOCATION_STALE"));
    proxy.thaw();
    await eventually(async () => (await probe(other)) === "admitted", "admission");
  });
});

describe("a broken connection", () => {
  test("costs no admission while the database accepts connections, and no revocation is missed", async () => {
    await withoutPause(async () => {
      await begin();
      await asSuperuser(`${terminate()} AND application_name = 'signet_edge'`);
      expect([await probe(first), await probe(other)]).toEqual(["admitted", "admitted"]);
    });
    await expectEndBy(async () => {
      await asSuperuser(`${terminate()} AND application_name = 'signet_edge'`);
      expect(await revokeCredential()).toMatchObject({ status: 200 });
    });
  });

  test("to an unreachable database causes a 503 and never a stale admission, until it is back", async () => {
    await withoutPause(async () => {
      await begin();
      await asSuperuser(`ALTER DATABASE ${api.database.name} WITH ALLOW_CONNECTIONS false`, terminate());
      const stoppedAt = performance.now();
      try {
        const late = (await probeUntil(first, stale)).filter(({ sentAt }) => sentAt > stoppedAt + BOUND_MS);
        expect(late.filter(({ outcome }) => outcome !== "REVOCATION_STALE")).toEqual([]);
      } finally {
        await asSuperuser(`ALTER DATABASE ${api.database.name} WITH ALLOW_CONNECTIONS true`);
      }
    });
    await eventually(async () => (await probe(first)) === "admitted", "admission");
    await eventually(async () => (await probe(other)) === "admitted", "admission");
  });
});

describe("an older database state", () => {
  test("does not reactivate revoked tokens, is reported, and new revocations work", async () => {
    await expectEndBy(revokeCredential);
    const victim = token;
    await sql(api, "DELETE FROM revocations");
    await sql(api, "UPDATE rev_clock SET seq = 0");
    const reported = (lines: readonly string[]): boolean =>
      lines.some((line) => line.includes("lacks revocations"));
    await eventually(() => reported(api.log) && reported(second.log), "the report");

    client = await provision(api, { scopes: SCOPES });
    token = await accessToken(api, client);
    for (const ask of patient) {
      expect(await probe(ask)).toBe("admitted");
    }
    await expectEndBy(revokeCredential);
    for (const ask of patient) {
      expect(await probe(ask, victim)).toBe("TOKEN_REVOKED");
    }
  });

  test("with another epoch is reloaded", async () => {
    await sql(api, "UPDATE rev_clock SET epoch = $1", [randomUUID()]);
    await expectEndBy(revokeCredential);
  });
});

test("a jump of the wall clock rejects no request", async () => {
  await withoutPause(async () => {
    await begin();
    api.clock.advance(1_000);
    expect(await probe(first)).toBe("admitted");
  });
});

/** Rotation as clients meet it at the token endpoint (security decisions C), lived through on real rows. */
import { beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import {
  CERTIFICATE,
  DAY_MS,
  HOUR_MS,
  OTHER_CERTIFICATE,
  type TestCredential,
  type TokenService,
  useTokenService,
} from "../../support/token-service.ts";

const service = useTokenService();
let tokens: TokenService;
beforeEach(() => {
  tokens = service.current;
});

/** Asks with a secret and returns its successor, which must be there. */
async function successor(client: TestCredential, secret: string, bound = false): Promise<string> {
  const { credential_rotation: rotation } = await tokens.request(
    client,
    secret,
    bound ? CERTIFICATE : undefined,
  );
  expect(rotation).toMatchObject({ credential_id: client.credentialId });
  return rotation?.client_secret ?? "";
}

const states = async (client: TestCredential): Promise<string[]> =>
  (await tokens.versions(client)).map(({ state }) => state);

/** Types of the entries about a credential. */
const logged = (client: TestCredential): string[] =>
  tokens.entries.filter(({ credentialId }) => credentialId === client.credentialId).map(({ type }) => type);

describe("a client that keeps its successors", () => {
  test("is given the successor 30 days after its secret came into use, and not before", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS - 1);
    expect(await tokens.outcome(client)).toBe("token");
    tokens.advance(1);
    const { credential_rotation: rotation } = await tokens.request(client);
    expect(rotation).toEqual({
      credential_id: client.credentialId,
      version: 2,
      client_secret: expect.stringMatching(/^sgn_live_sk_[0-9A-Za-z]{49}$/) as string,
      predecessor_retires_by: new Date(tokens.clock.now() + 45 * DAY_MS).toISOString(),
    });
    expect(logged(client)).toEqual(["credential.rotation_due", "credential.successor_created"]);
  });

  test("acknowledges it by using it; the old secret goes on, with the successor, until it was quiet for 24 hours", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    const next = await successor(client, client.secret);
    expect(await states(client)).toEqual(["ACTIVE", "PENDING"]);
    expect(await tokens.outcome(client, next)).toBe("token");
    expect(await states(client)).toEqual(["RETIRING", "ACTIVE"]);
    tokens.advance(20 * HOUR_MS);
    expect(await tokens.outcome(client)).toBe(2);
    tokens.advance(24 * HOUR_MS - 1);
    expect(await tokens.outcome(client)).toBe(2);
    tokens.advance(24 * HOUR_MS);
    expect(await tokens.outcome(client)).toBe("INVALID_CLIENT");
    expect(await tokens.outcome(client, next)).toBe("token");
    expect(logged(client)).toEqual([
      "credential.rotation_due",
      "credential.successor_created",
      "credential.rotated",
    ]);
  });

  test("goes from secret to secret every 30 days for years, and no request of it is ever refused", async () => {
    const client = await tokens.createCredential(false);
    let { secret } = client;
    let rotations = 0;
    for (let day = 0; day < 800; day += 1) {
      const { credential_rotation: rotation } = await tokens.request(client, secret);
      if (rotation !== undefined) {
        secret = rotation.client_secret;
        rotations += 1;
      }
      tokens.advance(DAY_MS);
    }
    // 30 days after the first use, which is a day after the successor was handed out.
    expect(rotations).toBe(Math.floor(800 / 31));
    expect((await states(client)).slice(-2)).toEqual(["RETIRING", "ACTIVE"]);
  });
});

describe("a client that never changes anything", () => {
  test("works over its registered certificate for 400 days and more, whatever it ignores", async () => {
    const client = await tokens.createCredential(true);
    const seen = new Set<number | string>();
    for (let day = 0; day < 440; day += 1) {
      seen.add(await tokens.outcome(client, client.secret, CERTIFICATE));
      tokens.advance(DAY_MS);
    }
    expect([...seen]).toEqual(["token", 2]);
    expect(await states(client)).toEqual(["ACTIVE", "PENDING"]);
    await eventually(
      () => logged(client).includes("credential.rescued"),
      "the use past its end to be logged",
    );
  });

  test("works without one until day 75", async () => {
    const client = await tokens.createCredential(false);
    for (let day = 0; day < 75; day += 1) {
      expect(await tokens.outcome(client)).toBe(day < 30 ? "token" : 2);
      tokens.advance(DAY_MS);
    }
    expect(await tokens.outcome(client)).toBe("INVALID_CLIENT");
    const usedAt = new Date(tokens.clock.now()).toISOString();
    // Uses are written later, behind whatever happens meanwhile: the entry says when it was.
    tokens.advance(60_000);
    await eventually(
      () => logged(client).includes("credential.retired_secret_used"),
      "the use of a secret that is over to be logged",
    );
    expect(tokens.entries.findLast(({ credentialId }) => credentialId === client.credentialId)).toMatchObject(
      {
        details: { version: 1, used_at: usedAt },
      },
    );
  });

  test("works over its certificate for ever beside a sibling that follows every rotation", async () => {
    const client = await tokens.createCredential(true);
    const seen = new Set<number | string>();
    let { secret } = client;
    for (let day = 0; day < 400; day += 1) {
      const { credential_rotation: rotation } = await tokens.request(client, secret, CERTIFICATE);
      secret = rotation?.client_secret ?? secret;
      // Not at weekends: the secret falls out of use and is rescued.
      const working = day % 7 < 5;
      seen.add(working ? await tokens.outcome(client, client.secret, CERTIFICATE) : "weekend");
      tokens.advance(DAY_MS);
    }
    expect([...seen]).toEqual(["token", "weekend", 2]);
    expect(await tokens.outcome(client, client.secret)).toBe("INVALID_CLIENT");
  });
});

describe("the successor", () => {
  test("is the same for every request and every retry, until it is used and after", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(31 * DAY_MS);
    const first = await successor(client, client.secret);
    expect(await successor(client, client.secret)).toBe(first);
    await tokens.request(client, first);
    expect(await successor(client, client.secret)).toBe(first);
    await eventually(
      async () => (await tokens.versions(client))[1]?.delivered_count === 3,
      "three deliveries",
    );
  });

  test("is one, for 60 requests at the same moment", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    const answers = await Promise.all(Array.from({ length: 60 }, async () => await tokens.request(client)));
    const given = answers.map(({ credential_rotation: rotation }) => rotation?.client_secret);
    expect(new Set(given).size).toBe(1);
    expect(given[0]).toBeDefined();
    expect(await states(client)).toEqual(["ACTIVE", "PENDING"]);
    expect(logged(client)).toEqual(["credential.rotation_due", "credential.successor_created"]);
  });

  test("is kept where nothing but the secret before it opens it", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    const next = await successor(client, client.secret);
    const { rows } = await tokens.sql.query<{ row: string }>("SELECT v::text AS row FROM secret_versions v");
    const text = rows.map(({ row }) => row).join() + JSON.stringify(tokens.entries) + tokens.log.join();
    expect(text).not.toContain(next);
    expect(text).not.toContain(client.secret);
  });

  test("survives a change of the pepper between its making and its use", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    const next = await successor(client, client.secret);
    tokens.changePepper();
    expect(await successor(client, client.secret)).toBe(next);
    expect(await tokens.outcome(client, next)).toBe("token");
    expect(await successor(client, client.secret)).toBe(next);
    const { rows } = await tokens.sql.query<{ peppers: string }>(
      "SELECT count(DISTINCT mac_key_id) AS peppers FROM secret_versions WHERE credential_id = $1",
      [client.credentialId],
    );
    // Both secrets were used, and moved to the new pepper.
    expect(Number(rows[0]?.peppers)).toBe(1);
  });

  test("goes over mutual TLS to the registered certificate alone", async () => {
    const bound = await tokens.createCredential(true);
    const unbound = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    expect(await tokens.outcome(bound, bound.secret, CERTIFICATE)).toBe(2);
    expect(await tokens.outcome(bound, bound.secret)).toBe("token");
    expect(await tokens.outcome(bound, bound.secret, OTHER_CERTIFICATE)).toBe("INVALID_CLIENT");
    expect(await tokens.outcome(unbound, unbound.secret, OTHER_CERTIFICATE)).toBe("token");
    expect(await tokens.outcome(unbound, unbound.secret)).toBe(2);
  });
});

describe("a client that comes back late", () => {
  test("is rescued by its certificate, one step a call, through everything that happened meanwhile", async () => {
    const client = await tokens.createCredential(true);
    const secrets = [client.secret];
    for (let rotation = 0; rotation < 4; rotation += 1) {
      tokens.advance(30 * DAY_MS);
      secrets.push(await successor(client, secrets.at(-1) ?? "", true));
      await tokens.request(client, secrets.at(-1), CERTIFICATE);
    }
    tokens.advance(5 * DAY_MS);
    let { secret } = client;
    for (const expected of secrets.slice(1)) {
      secret = await successor(client, secret, true);
      expect(secret).toBe(expected);
    }
    expect(await tokens.outcome(client, secret, CERTIFICATE)).toBe("token");
    expect(await states(client)).toEqual(["RETIRED", "RETIRED", "RETIRED", "RETIRED", "ACTIVE"]);
    await eventually(
      () => logged(client).filter((type) => type === "credential.rescued").length === 4,
      "each rescue to be logged once",
    );
  });

  test("is not rescued without it, also not after it was, and not after 180 days", async () => {
    const client = await tokens.createCredential(true);
    tokens.advance(30 * DAY_MS);
    const next = await successor(client, client.secret, true);
    await tokens.request(client, next, CERTIFICATE);
    tokens.advance(2 * DAY_MS);
    expect(await tokens.outcome(client, client.secret)).toBe("INVALID_CLIENT");
    expect(await tokens.outcome(client, client.secret, CERTIFICATE)).toBe(2);
    expect(await tokens.outcome(client, client.secret, CERTIFICATE)).toBe(2);
    expect(await tokens.outcome(client, client.secret)).toBe("INVALID_CLIENT");
    tokens.advance(180 * DAY_MS);
    expect(await tokens.outcome(client, client.secret, CERTIFICATE)).toBe("INVALID_CLIENT");
    expect(await tokens.outcome(client, next, CERTIFICATE)).toBe(3);
  });

  test("after 40 days away, from the day before its rotation, gets a token and its successor", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(29.9 * DAY_MS);
    expect(await tokens.outcome(client)).toBe("token");
    tokens.advance(40 * DAY_MS);
    expect(await tokens.outcome(client)).toBe(2);
  });

  test("a revoked credential is never rescued, and what its secrets could open is erased with it", async () => {
    const client = await tokens.createCredential(true);
    tokens.advance(30 * DAY_MS);
    const next = await successor(client, client.secret, true);
    await tokens.request(client, next, CERTIFICATE);
    await tokens.sql.query("UPDATE credentials SET state = 'REVOKED' WHERE id = $1", [client.credentialId]);
    for (const secret of [client.secret, next]) {
      expect(await tokens.outcome(client, secret, CERTIFICATE)).toBe("INVALID_CLIENT");
    }
    expect(await tokens.versions(client)).toMatchObject([
      { state: "REVOKED", wrapped: null },
      { state: "REVOKED", wrapped: null },
    ]);
    await expect(
      tokens.sql.query("UPDATE secret_versions SET state = 'ACTIVE' WHERE credential_id = $1", [
        client.credentialId,
      ]),
    ).rejects.toThrow(/REVOKED cannot become ACTIVE/);
  });
});

describe("without a database to write to", () => {
  /** New connections can only read; those that are open are broken. */
  async function readOnly(on: boolean): Promise<void> {
    const { name } = tokens.database;
    await tokens.sql.query(`ALTER DATABASE ${name} SET default_transaction_read_only = ${on ? "on" : "off"}`);
    await tokens.sql.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = $1 AND application_name LIKE 'signet_%'`,
      [name],
    );
  }

  test("the request gets its token and no successor; the next one with a writable database gets it", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    await readOnly(true);
    try {
      await eventually(async () => (await tokens.outcome(client)) === "token", "a token without a successor");
    } finally {
      await readOnly(false);
    }
    await eventually(async () => (await tokens.outcome(client)) === 2, "the successor");
  });
});

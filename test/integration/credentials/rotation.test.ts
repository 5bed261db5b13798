/** Secret rotation as clients see it at the token endpoint (security decisions C), on real rows. */
import { beforeEach, describe, expect, test } from "vitest";
import { eventually } from "#test/support/eventually.ts";
import {
  CERTIFICATE,
  DAY_MS,
  HOUR_MS,
  OTHER_CERTIFICATE,
  type TestCredential,
  type TokenService,
  useTokenService,
} from "#test/support/token-service.ts";

const service = useTokenService();
let tokens: TokenService;
beforeEach(() => {
  tokens = service.current;
});

/** Requests a token with a secret and returns the successor, which must be present. */
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

/** Returns the types of the entries about a credential. */
const logged = (client: TestCredential): string[] =>
  tokens.entries.filter(({ credentialId }) => credentialId === client.credentialId).map(({ type }) => type);

describe("a client that stores its successors", () => {
  test("gets the successor 30 days after its secret came into use, not before", async () => {
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

  test("acknowledges a successor by using it; the old secret also works until it was unused for 24 hours", async () => {
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
    // Uses are written later, in the background.
    tokens.advance(60_000);
    await eventually(
      () => logged(client).includes("credential.retired_secret_used"),
      "the log entry for the use of the ended secret",
    );
    expect(logged(client)).toEqual([
      "credential.rotation_due",
      "credential.successor_created",
      "credential.rotated",
      "credential.retired_secret_used",
    ]);
  });

  test("rotates its secret every 30 days for years, and no request is rejected", async () => {
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
    // 30 days after the first use, which is a day after the successor was returned.
    expect(rotations).toBe(Math.floor(800 / 31));
    expect((await states(client)).slice(-2)).toEqual(["RETIRING", "ACTIVE"]);
  });
});

describe("a client that ignores rotations", () => {
  test("works with its registered certificate for more than 400 days", async () => {
    const client = await tokens.createCredential(true);
    const seen = new Set<number | string>();
    for (let day = 0; day < 440; day += 1) {
      seen.add(await tokens.outcome(client, client.secret, CERTIFICATE));
      tokens.advance(DAY_MS);
    }
    expect([...seen]).toEqual(["token", 2]);
    expect(await states(client)).toEqual(["ACTIVE", "PENDING"]);
    await eventually(() => logged(client).includes("credential.rescued"), "the log entry for the late use");
  });

  test("works without a certificate until day 75", async () => {
    const client = await tokens.createCredential(false);
    for (let day = 0; day < 75; day += 1) {
      expect(await tokens.outcome(client)).toBe(day < 30 ? "token" : 2);
      tokens.advance(DAY_MS);
    }
    expect(await tokens.outcome(client)).toBe("INVALID_CLIENT");
    const usedAt = new Date(tokens.clock.now()).toISOString();
    // Uses are written later, in the background; the entry has the time of the use.
    tokens.advance(60_000);
    await eventually(
      () => logged(client).includes("credential.retired_secret_used"),
      "the log entry for the use of a retired secret",
    );
    expect(tokens.entries.findLast(({ credentialId }) => credentialId === client.credentialId)).toMatchObject(
      {
        details: { version: 1, used_at: usedAt },
      },
    );
  });

  test("works with its certificate permanently beside a sibling that follows every rotation", async () => {
    const client = await tokens.createCredential(true);
    const seen = new Set<number | string>();
    let { secret } = client;
    for (let day = 0; day < 400; day += 1) {
      const { credential_rotation: rotation } = await tokens.request(client, secret, CERTIFICATE);
      secret = rotation?.client_secret ?? secret;
      // Idle at weekends: the secret is retired and then rescued.
      const working = day % 7 < 5;
      seen.add(working ? await tokens.outcome(client, client.secret, CERTIFICATE) : "weekend");
      tokens.advance(DAY_MS);
    }
    expect([...seen]).toEqual(["token", "weekend", 2]);
    expect(await tokens.outcome(client, client.secret)).toBe("INVALID_CLIENT");
  });
});

describe("the successor", () => {
  test("is the same for every request and retry, before and after its first use", async () => {
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

  test("is the same for 60 simultaneous requests", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    const answers = await Promise.all(Array.from({ length: 60 }, async () => await tokens.request(client)));
    const given = answers.map(({ credential_rotation: rotation }) => rotation?.client_secret);
    expect(new Set(given).size).toBe(1);
    expect(given[0]).toBeDefined();
    expect(await states(client)).toEqual(["ACTIVE", "PENDING"]);
    expect(logged(client)).toEqual(["credential.rotation_due", "credential.successor_created"]);
  });

  test("is stored so that only the previous secret decrypts it", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(30 * DAY_MS);
    const next = await successor(client, client.secret);
    const { rows } = await tokens.sql.query<{ row: string }>("SELECT v::text AS row FROM secret_versions v");
    const text = rows.map(({ row }) => row).join() + JSON.stringify(tokens.entries) + tokens.log.join();
    expect(text).not.toContain(next);
    expect(text).not.toContain(client.secret);
  });

  test("survives a change of the pepper between its creation and its use", async () => {
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
    // Both secrets were used, which moved them to the new pepper.
    expect(Number(rows[0]?.peppers)).toBe(1);
  });

  test("is sent over mutual TLS only to the registered certificate", async () => {
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

describe("a client that returns late", () => {
  test("is rescued by its certificate, one step per call, through everything that happened meanwhile", async () => {
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
      "one log entry per rescue",
    );
  });

  test("is not rescued without its certificate, even after an earlier rescue, nor after 180 days", async () => {
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

  test("gets a token and its successor after 40 days away, from the day before its rotation", async () => {
    const client = await tokens.createCredential(false);
    tokens.advance(29.9 * DAY_MS);
    expect(await tokens.outcome(client)).toBe("token");
    tokens.advance(40 * DAY_MS);
    expect(await tokens.outcome(client)).toBe(2);
  });

  test("is never rescued if its credential is revoked, which also erases what its secrets could decrypt", async () => {
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

describe("with a read-only database", () => {
  /** Makes new connections read-only and breaks the open ones. */
  async function readOnly(on: boolean): Promise<void> {
    const { name } = tokens.database;
    await tokens.sql.query(`ALTER DATABASE ${name} SET default_transaction_read_only = ${on ? "on" : "off"}`);
    await tokens.sql.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = $1 AND application_name LIKE 'signet_%'`,
      [name],
    );
  }

  test("a request gets its token without a successor; once the database is writable, the next one gets both", async () => {
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

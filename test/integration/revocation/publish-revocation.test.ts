/** Publishing revocations: in one transaction, numbered without gaps in commit order. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { appendEntry } from "#compliance/append-entry.ts";
import { createPool, type Pool, type Queryable, type ServiceRole } from "#database/pool.ts";
import { tenantTransaction, transaction } from "#database/transaction.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { REVOCATION_KINDS } from "#revocation/kinds.ts";
import { type NewRevocation, publishRevocation, type Revocation } from "#revocation/publish-revocation.ts";
import { eventually } from "#test/support/eventually.ts";
import { useTestDatabase } from "#test/support/services.ts";

const database = useTestDatabase();
const clock = { now: () => Date.now() };
const sources = { clock, randomBytes };
const TENANT = newId("tenant", 0, randomBytes);
const pools: Pool[] = [];
let operator: Pool;
let superuser: Client;
const received: string[] = [];

function open(role: ServiceRole): Pool {
  const pool = createPool({ url: database.url, role, max: 16, log: createLogger({ level: "silent" }) });
  pools.push(pool);
  return pool;
}

function aCredential(): NewRevocation {
  return {
    kind: "credential",
    target: newId("credential", Date.now(), randomBytes),
    tenant: TENANT,
    actor: "operator:root",
    reason: "compromised",
    requestId: "req_1",
  };
}

async function revoke(revocation: NewRevocation): Promise<Revocation> {
  return await transaction(operator, async (db) => await publishRevocation(db, revocation, sources));
}

beforeAll(async () => {
  operator = open("signet_operator");
  superuser = new Client({ connectionString: database.adminUrl });
  await superuser.connect();
  superuser.on("notification", ({ payload }) => void received.push(payload ?? ""));
  await superuser.query("LISTEN signet_revocations");
});
afterAll(async () => {
  await superuser.end();
  await Promise.all(pools.map(async (pool) => await pool.end()));
});
beforeEach(() => {
  received.length = 0;
});

test("a revocation has a number, a row, an entry in the log and a notification", async () => {
  const revocation = aCredential();
  const published = await revoke(revocation);
  const { rows } = await superuser.query(
    `SELECT r.*, convert_from(entry, 'UTF8')::jsonb AS entry, c.leaf_hash = r.leaf_hash AS same
       FROM revocations r JOIN clog c ON c.idx = r.log_index WHERE r.id = $1`,
    [published.id],
  );
  expect(rows).toMatchObject([
    {
      seq: published.sequence,
      kind: "credential",
      target: revocation.target,
      tenant_id: TENANT,
      reason: "compromised",
      actor: "operator:root",
      log_index: published.logIndex,
      same: true,
      entry: {
        type: "credential.revoked",
        target: revocation.target,
        tenant: TENANT,
        request_id: "req_1",
        details: { revocation_id: published.id },
      },
    },
  ]);
  // Those of the previous test may arrive in this one.
  const own = () => received.filter((payload) => Number(payload.split(":")[0]) >= published.sequence);
  await eventually(() => own().length > 0, "the notification");
  expect(own()).toEqual([`${published.sequence}:credential:${revocation.target}`]);
});

test("an already revoked target keeps its revocation, also for concurrent requests", async () => {
  const revocation = aCredential();
  const answers = await Promise.all(Array.from({ length: 12 }, async () => await revoke(revocation)));
  expect(new Set(answers.map(({ id, sequence, logIndex }) => `${id} ${sequence} ${logIndex}`)).size).toBe(1);
  const { rows } = await superuser.query("SELECT FROM clog WHERE convert_from(entry, 'UTF8') LIKE $1", [
    `%${revocation.target}%`,
  ]);
  expect(rows).toHaveLength(1);
});

test("a target that was used again is revoked again", async () => {
  const revocation = aCredential();
  const first = await revoke(revocation);
  const second = await revoke({ ...revocation, disabledNow: true });
  expect(second.sequence).toBeGreaterThan(first.sequence);
  expect(await revoke(revocation)).toEqual(second);
});

test("a rollback publishes nothing and leaves no gap", async () => {
  const before = await revoke(aCredential());
  const taken = aCredential();
  await expect(
    transaction(operator, async (db) => {
      await publishRevocation(db, taken, sources);
      throw new Error("changed its mind");
    }),
  ).rejects.toThrow("changed its mind");
  const after = await revoke(aCredential());
  expect(after.sequence).toBe(before.sequence + 1);
  // Those of the previous test may arrive in this one.
  const own = () => received.filter((payload) => Number(payload.split(":")[0]) >= before.sequence);
  await eventually(() => own().length === 2, "both notifications");
  expect(received.join()).not.toContain(taken.target);
});

test("numbers follow the commit order, without gaps", async () => {
  const before = await revoke(aCredential());
  await Promise.all(Array.from({ length: 60 }, async () => await revoke(aCredential())));
  const sequences = () => received.map((payload) => Number(payload.split(":")[0]));
  const own = () => sequences().filter((sequence) => sequence > before.sequence);
  await eventually(() => own().length === 60, "all notifications");
  const numbers = own();
  expect(numbers).toEqual(numbers.map((_, index) => (numbers[0] ?? 0) + index));
});

test("appending before publishing and publishing before appending do not deadlock", async () => {
  const entry = { type: "key.revoked", actor: "system:test", tenant: null, target: null } as const;
  await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      await transaction(operator, async (db) => {
        const steps = [
          async () => await appendEntry(db, entry, sources),
          async () => await publishRevocation(db, aCredential(), sources),
        ];
        for (const step of index % 2 === 0 ? steps : steps.toReversed()) {
          await step();
        }
      });
    }),
  );
});

test("revocations of keys and certificates are kept permanently, all others for twenty minutes", async () => {
  const lives: [string, number | null][] = [];
  for (const kind of REVOCATION_KINDS) {
    const { id } = await revoke({ ...aCredential(), kind });
    const { rows } = await superuser.query<{ life: number | null }>(
      "SELECT round(extract(epoch FROM expires_at - at))::int AS life FROM revocations WHERE id = $1",
      [id],
    );
    lives.push([kind, rows[0]?.life ?? null]);
  }
  expect(Object.fromEntries(lives)).toEqual({
    credential: 1_200,
    principal: 1_200,
    tenant: 1_200,
    jti: 1_200,
    kid: null,
    cert: null,
  });
});

describe("a tenant's request", () => {
  const asTenant = async (tenant: string, revocation: NewRevocation): Promise<Revocation> => {
    const work = async (db: Queryable): Promise<Revocation> =>
      await publishRevocation(db, revocation, sources);
    return await tenantTransaction(open("signet_api"), tenant, work);
  };

  test("publishes for its own tenant", async () => {
    expect(await asTenant(TENANT, aCredential())).toMatchObject({ sequence: expect.any(Number) });
  });

  test("does not publish for another tenant, nor targets that tenants cannot revoke", async () => {
    const other = newId("tenant", 1, randomBytes);
    await expect(asTenant(other, aCredential())).rejects.toThrow("of another tenant");
    for (const kind of ["principal", "tenant", "kid", "cert"] as const) {
      await expect(asTenant(TENANT, { ...aCredential(), kind })).rejects.toThrow("of another tenant");
    }
  });
});

/** Changes of the log are detected by the command line, by a tenant's program, from an export and from a database. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { verifyEntry } from "#lib/transparency-log/compliance-proof.ts";
import { SignetClient } from "#lib/client/signet-client.ts";
import { appendEntry } from "#compliance/append-entry.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { createFileSink } from "#compliance/checkpoint-sink.ts";
import { signCheckpoint } from "#compliance/sign-checkpoint.ts";
import { parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestApi } from "#test/support/api.ts";
import { type CommandRun, runSignet } from "#test/support/command-line.ts";
import { createTenant, rows, sql, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();
let directory: string;
let key: CheckpointKey;
let pools: { audit: Pool; worker: Pool; operator: Pool };
let tenant: Tenant;
let other: Tenant;

const kept = (): string => join(directory, "kept");

async function sign(): Promise<void> {
  await signCheckpoint({
    key,
    trusted: [await parseVerifierKey(key.verifierKey, NODE_CRYPTO)],
    sink: createFileSink(kept(), randomBytes),
    auditPool: pools.audit,
    pool: pools.worker,
    clock: systemClock,
  });
}

async function append(count: number): Promise<void> {
  await transaction(pools.operator, async (db) => {
    for (let made = 0; made < count; made += 1) {
      await appendEntry(
        db,
        { type: "tenant.created", actor: "operator:root", tenant: null, target: null, details: { made } },
        { clock: systemClock, randomBytes },
      );
    }
  });
}

async function signet(...line: readonly string[]): Promise<CommandRun> {
  return await runSignet(line, api.environment);
}

async function verify(...options: readonly string[]): Promise<CommandRun> {
  return await signet("audit", "verify", "--vkey", key.verifierKey, ...options);
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "signet-verify-"));
  key = new CheckpointKey("test.example/log", randomBytes(32));
  const open = (role: "signet_audit" | "signet_worker" | "signet_operator"): Pool =>
    createPool({ url: api.database.url, role, max: 2, log: createLogger({ level: "silent" }) });
  pools = {
    audit: open("signet_audit"),
    worker: open("signet_worker"),
    operator: open("signet_operator"),
  };
  tenant = await createTenant(api, ["compliance:read"]);
  other = await createTenant(api, ["compliance:read"]);
  await append(300);
  await sign();
  await append(100);
  await sign();
  await append(200);
  await sign();
  await append(10);
});
afterAll(async () => {
  await Promise.all(Object.values(pools).map(async (pool) => await pool.end()));
  await rm(directory, { recursive: true, force: true });
});

describe("an unchanged log", () => {
  test("verifies online, from the database, from an export, and with every kept checkpoint", async () => {
    const path = join(directory, "export.ndjson");
    const exported = await signet("audit", "export");
    expect(exported).toMatchObject({ code: 0, stderr: "" });
    await writeFile(path, exported.stdout);
    const [{ size } = { size: 0 }] = await sql<{ size: number }>(api, "SELECT size FROM clog_head");
    for (const source of [[], ["--db", api.database.url], ["--export", path]]) {
      const run = await verify(...source, "--checkpoint", kept(), "--json");
      expect(run).toMatchObject({ code: 0, stderr: "" });
      expect(JSON.parse(run.stdout)).toMatchObject({ entries: size, checkpoints: 6, signed: size - 10 });
    }
  });

  test("verifies while it grows", async () => {
    const runs = await Promise.all([verify(), append(300), verify(), append(300), verify()]);
    expect(runs.filter((run) => run !== undefined).map(({ code }) => code)).toEqual([0, 0, 0]);
  });

  test("does not verify with another key, or without one", async () => {
    const stranger = new CheckpointKey("test.example/log", randomBytes(32)).verifierKey;
    expect(await signet("audit", "verify", "--vkey", stranger)).toMatchObject({ code: 1 });
    expect(await signet("audit", "verify", "--vkey", "x")).toMatchObject({ code: 1 });
    expect(await signet("audit", "verify")).toMatchObject({ code: 2 });
  });

  test("is not verified from a database that denies access or does not answer, and the error says which", async () => {
    const stranger = new URL(api.database.url);
    stranger.username = "nobody_there";
    const absent = new URL(api.database.url);
    absent.port = "1";
    const started = expect.stringMatching(/^signet: --db: /) as string;
    expect(await verify("--db", stranger.href)).toMatchObject({ code: 1, stderr: started });
    expect(await verify("--db", absent.href)).toMatchObject({ code: 6, stderr: started });
  });

  test("does not verify from a truncated export", async () => {
    const { stdout } = await signet("audit", "export");
    const path = join(directory, "short.ndjson");
    const lines = stdout.split("\n");
    await writeFile(path, lines.slice(0, -2).join("\n") + "\n");
    expect(await verify("--export", path)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the export is incomplete") as string,
    });
    await writeFile(path, "hello\n");
    expect(await verify("--export", path)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("line 1 is not a line of an export") as string,
    });
  });
});

/** Tampers as a superuser who disables the triggers, and restores everything after `work`. */
async function withTampering(statements: readonly string[], work: () => Promise<void>): Promise<void> {
  const tables = ["clog", "clog_head", "clog_checkpoint", "clog_tile"];
  for (const table of tables) {
    await sql(api, `CREATE TABLE saved_${table} AS TABLE ${table}`);
    await sql(api, `ALTER TABLE ${table} DISABLE TRIGGER ALL`);
  }
  try {
    for (const statement of statements) {
      await sql(api, statement);
    }
    await work();
  } finally {
    for (const table of tables) {
      const columns = table === "clog" ? "log_id, idx, entry, leaf_hash, at, type, tenant_id" : "*";
      const into = table === "clog" ? `clog (${columns})` : table;
      await sql(api, `DELETE FROM ${table}`);
      await sql(api, `INSERT INTO ${into} SELECT ${columns} FROM saved_${table}`);
      await sql(api, `DROP TABLE saved_${table}`);
    }
  }
}

const REWRITE = (index: number): string =>
  `UPDATE clog SET entry = convert_to(replace(convert_from(entry, 'UTF8'), 'operator:root', 'operator:evil'), 'UTF8') WHERE idx = ${index}`;
const REHASH = "UPDATE clog SET leaf_hash = sha256('\\x00'::bytea || entry)";
const SWAP = `UPDATE clog SET entry = other.entry, leaf_hash = other.leaf_hash
  FROM clog AS other WHERE (clog.idx, other.idx) IN ((40, 41), (41, 40))`;

describe("the log's verification finds a superuser who", () => {
  test.each<readonly [what: string, first: number | string, statements: readonly string[]]>([
    ["edits an entry", 123, [REWRITE(123)]],
    ["edits an entry and its hash", 123, [REWRITE(123), REHASH]],
    [
      "edits an entry, its hash and its tile",
      "one of 0 to 307\n",
      [REWRITE(123), REHASH, "DELETE FROM clog_tile"],
    ],
    [
      "edits an entry under the second checkpoint, its hash and its tile",
      "one of 308 to 407\n",
      [REWRITE(350), REHASH, "DELETE FROM clog_tile"],
    ],
    ["edits a hash", 77, ["UPDATE clog SET leaf_hash = sha256('x') WHERE idx = 77"]],
    ["deletes an entry", 55, ["DELETE FROM clog WHERE idx = 55"]],
    [
      "deletes an entry and closes the gap",
      55,
      [
        "DELETE FROM clog WHERE idx = 55",
        // In two steps, because the order of rows is PostgreSQL's, and no index may occur twice in between.
        "UPDATE clog SET idx = -idx WHERE idx > 55",
        "UPDATE clog SET idx = -idx - 1 WHERE idx < 0",
      ],
    ],
    ["swaps two entries", 40, [SWAP]],
    ["changes the index of an entry", 40, ["UPDATE clog SET idx = -1 WHERE idx = 40"]],
    ["moves an entry to another time", 9, ["UPDATE clog SET at = at - interval '1 day' WHERE idx = 9"]],
    ["files an entry under another type", 9, ["UPDATE clog SET type = 'x' WHERE idx = 9"]],
    ["gives an entry to another tenant", 9, ["UPDATE clog SET tenant_id = 'ten_x' WHERE idx = 9"]],
    [
      "re-serialises an entry",
      30,
      [
        `UPDATE clog SET entry = convert_to(replace(convert_from(entry, 'UTF8'), ',"idx"', ', "idx"'), 'UTF8') WHERE idx = 30`,
        REHASH,
        "DELETE FROM clog_tile",
      ],
    ],
    ["deletes the end of the log", 500, ["DELETE FROM clog WHERE idx >= 500"]],
    ["deletes the entries after the last checkpoint", "missing", ["DELETE FROM clog WHERE idx >= 608"]],
    ["empties the log", 0, ["TRUNCATE clog"]],
    ["changes the root in the head", "head", ["UPDATE clog_head SET root = sha256('x')"]],
    ["counts fewer entries in the head", 600, ["UPDATE clog_head SET size = 600"]],
    [
      "deletes a checkpoint",
      "checkpoint 2 of the log is missing",
      ["DELETE FROM clog_checkpoint WHERE seq = 2"],
    ],
    [
      "changes a checkpoint",
      "checkpoint 2 of the log",
      ["UPDATE clog_checkpoint SET size = 401 WHERE seq = 2"],
    ],
    [
      "forges a note",
      "checkpoint 3 of the log",
      ["UPDATE clog_checkpoint SET note = replace(note, '608', '609') WHERE seq = 3"],
    ],
  ])("%s", async (_what, first, statements) => {
    // Superusers can drop the constraint.
    const prepared = ["ALTER TABLE clog DROP CONSTRAINT IF EXISTS clog_idx", ...statements];
    await withTampering(prepared, async () => {
      const online = await verify("--checkpoint", kept());
      const database = await verify("--checkpoint", kept(), "--db", api.database.url);
      expect(online.code).toBe(1);
      expect(online.stderr).toContain(typeof first === "number" ? `first bad entry: ${first}\n` : first);
      expect(database).toEqual(online);
    });
    expect(await verify("--checkpoint", kept())).toMatchObject({ code: 0 });
  });

  test("changes two entries, both of them, as text and as JSON", async () => {
    const moved = "UPDATE clog SET type = 'x' WHERE idx = 9";
    const edited = REWRITE(350);
    await withTampering([moved, edited], async () => {
      const text = await verify("--checkpoint", kept());
      expect(text).toMatchObject({ code: 1, stdout: "" });
      expect(text.stderr).toContain("first bad entry: 9\nalso: entry 350 does not match its stored hash\n");
      const json = await verify("--checkpoint", kept(), "--json");
      expect(json).toMatchObject({ code: 1, stderr: text.stderr });
      expect(JSON.parse(json.stdout)).toEqual({
        intact: false,
        problems: [
          { index: 9, last: 9, message: "entry 9 does not match its columns (time, type or tenant)" },
          { index: 350, last: 350, message: "entry 350 does not match its stored hash" },
        ],
      });
    });
  });

  test("replays an older database, by the kept checkpoints if not by the database", async () => {
    const older = [
      "DELETE FROM clog WHERE idx >= 308",
      "DELETE FROM clog_checkpoint WHERE seq > 1",
      "DELETE FROM clog_tile WHERE idx >= 1",
      "UPDATE clog_head SET size = 308, root = (SELECT root FROM clog_checkpoint WHERE seq = 1)",
    ];
    await withTampering(older, async () => {
      expect(await verify()).toMatchObject({ code: 0 });
      const detected = await verify("--checkpoint", kept());
      expect(detected).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("first bad entry: 308") as string,
      });
      // One file is sufficient.
      const one = join(kept(), "000000000", "000000000003.txt");
      expect(await verify("--checkpoint", one)).toMatchObject({ code: 1 });
    });
  });
});

describe("a tenant", () => {
  const index = async (who: Tenant): Promise<number> =>
    Number(rows(await who.get("/v1/compliance/entries?limit=1"))[0]?.["index"]);

  test("sees only its own entries, by type and time", async () => {
    const entries = rows(await tenant.get("/v1/compliance/entries"));
    expect(entries.map(({ type }) => type)).toEqual([
      "credential.created",
      "principal.created",
      "role.created",
      "tenant.created",
    ]);
    expect(new Set(entries.map(({ tenant_id: id }) => id))).toEqual(new Set([tenant.tenantId]));
    expect(rows(await tenant.get("/v1/compliance/entries?type=role.created"))).toEqual([entries[2]]);
    const from = String(entries[1]?.["at"]);
    expect(rows(await tenant.get(`/v1/compliance/entries?from=${from}&to=${from}`))).toEqual([]);
    const foreign = await tenant.get(`/v1/compliance/entries/${await index(other)}`);
    expect(foreign).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
    const proof = await tenant.get(`/v1/compliance/proof/inclusion?idx=${await index(other)}`);
    expect(proof).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
  });

  test("gets the checkpoint as a signed note or as JSON", async () => {
    const { body } = await tenant.get("/v1/compliance/checkpoint");
    const note = await tenant.send("GET", "/v1/compliance/checkpoint", { headers: { accept: "text/plain" } });
    expect(note.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(note.text).toBe(body["note"]);
    expect(body).toMatchObject({ seq: 3, size: 608 });
  });

  test.each([
    ["proof/inclusion", 400],
    ["proof/inclusion?idx=0&size=999999", 400],
    ["proof/inclusion?idx=3&size=3", 400],
    ["proof/inclusion?idx=-1", 400],
    ["proof/inclusion?idx=1.5", 400],
    ["proof/consistency?from=0", 400],
    ["proof/consistency?from=5&to=4", 400],
    ["proof/consistency?from=5&to=999999", 400],
    ["proof/consistency?from=1&colour=red", 400],
    ["entries/01", 404],
    ["entries/x", 404],
    ["entries?type=made.up", 400],
  ])("a request for %s is answered %i", async (path, status) => {
    const own = path
      .replace("idx=3&", `idx=${await index(tenant)}&`)
      .replace("idx=0&", `idx=${await index(tenant)}&`);
    expect(await tenant.get(`/v1/compliance/${own}`)).toMatchObject({ status });
  });

  test("verifies its entry and the log's consistency without trusting the service", async () => {
    const client = new SignetClient({
      baseUrl: api.publicUrl,
      clientId: tenant.clientId,
      clientSecret: tenant.clientSecret,
    });
    const place = await index(tenant);
    const options = { verifierKeys: [key.verifierKey], crypto: NODE_CRYPTO };
    const verified = await client.compliance.verify(place, options);
    expect(verified).toMatchObject({ index: place, entry: { idx: place, tenant: tenant.tenantId } });
    const earlier = await createFileSink(kept(), randomBytes).read(1);
    const again = await client.compliance.verify(place, { ...options, earlier: [earlier?.note ?? ""] });
    expect(again.checkpoint).toBe(verified.checkpoint);
    const stranger = new CheckpointKey("test.example/log", randomBytes(32)).verifierKey;
    await expect(client.compliance.verify(place, { verifierKeys: [stranger] })).rejects.toThrow(
      "none of the given",
    );
  });

  test("detects a service that returns another entry, another log or a shorter one", async () => {
    const get = async <T>(path: string): Promise<T> => (await tenant.get(`/v1/compliance/${path}`)).body as T;
    const place = await index(tenant);
    const genuine = {
      entry: async (idx: number) => await get<{ index: number; entry: string }>(`entries/${idx}`),
      checkpoint: async () => await get<{ note: string }>("checkpoint"),
      inclusion: async (idx: number, size: number) =>
        await get<{ hashes: string[] }>(`proof/inclusion?idx=${idx}&size=${size}`),
      consistency: async (from: number, to: number) =>
        await get<{ hashes: string[] }>(`proof/consistency?from=${from}&to=${to}`),
    };
    const options = { verifierKeys: [key.verifierKey], crypto: NODE_CRYPTO };
    await expect(verifyEntry(genuine, place, options)).resolves.toBeDefined();
    const forged = {
      ...genuine,
      entry: async () => ({ index: place, entry: Buffer.from('{"idx":1}').toString("base64") }),
    };
    await expect(verifyEntry(forged, place, options)).rejects.toThrow("is not in the tree");
    await expect(
      verifyEntry({ ...genuine, entry: async () => await genuine.entry(place - 1) }, place, options),
    ).rejects.toThrow("is not in the tree");
    const fork = key.sign({ size: 100, root: Buffer.alloc(32, 9) });
    await expect(verifyEntry(genuine, place, { ...options, earlier: [fork] })).rejects.toThrow(
      "does not continue",
    );
    const longer = key.sign({ size: 100_000, root: Buffer.alloc(32, 9) });
    await expect(verifyEntry(genuine, place, { ...options, earlier: [longer] })).rejects.toThrow(
      "entry 608 is missing",
    );
  });

  test("an operator verifies one entry from the command line", async () => {
    const run = await verify("--entry", "500", "--checkpoint", kept(), "--json");
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(run.stdout)).toMatchObject({ index: 500, entry: { idx: 500 } });
    expect(await verify("--entry", "609")).toMatchObject({ code: 1 });
    expect(await verify("--entry", "x")).toMatchObject({ code: 2 });
  });
});

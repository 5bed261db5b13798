/**
 * The token endpoint without HTTP, for tests that span months and choose the client certificate of a request. Everything
 * else is real.
 */
import { randomBytes } from "node:crypto";
import { Pool as PgPool } from "pg";
import { issueCredential } from "#tokens/credentials/issue-credential.ts";
import {
  type AppendRotationEntry,
  createRotationLog,
  type RotationEntry,
} from "#tokens/credentials/rotation-log.ts";
import { RotationNotices } from "#tokens/credentials/rotation-notices.ts";
import { TokenRotationService } from "#tokens/credentials/rotation.ts";
import { Pepper } from "#crypto/pepper.ts";
import { createPool, type Pool, type ServiceRole } from "#database/pool.ts";
import {
  createClientLookup,
  createRetiredClientLookup,
  replaceMac,
  touchVersions,
} from "#database/repositories/tokens/clients.ts";
import { newId } from "#domain/ids.ts";
import type { RotationRules } from "#domain/secret-version.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import { createLogger } from "#observability/logger.ts";
import { createClientAuthenticator } from "#tokens/oauth/client-authentication.ts";
import type { LastUsedRecorder } from "#tokens/oauth/last-used.ts";
import { issueToken, type TokenResponse, type TokenServices } from "#tokens/oauth/token.ts";
import { createTestDatabase, type TestDatabase } from "./services.ts";
import { useStarted } from "./started.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
const RULES: RotationRules = {
  periodMs: 30 * DAY_MS,
  quietMs: DAY_MS,
  maxOverlapMs: 45 * DAY_MS,
  rescueMs: 180 * DAY_MS,
};

/** The client's own certificate, and one of another client. */
export const CERTIFICATE = certificate("a");
export const OTHER_CERTIFICATE = certificate("b");

function certificate(digit: string): ClientCertificate {
  const thumbprint = digit.repeat(64);
  return {
    thumbprint,
    x5t: Buffer.from(thumbprint, "hex").toString("base64url"),
    sanUris: [],
    chain: [],
    notBefore: 0,
    notAfter: Number.MAX_SAFE_INTEGER,
  };
}

export interface TestCredential {
  readonly credentialId: string;
  readonly tenantId: string;
  readonly clientId: string;
  readonly secret: string;
}

/** Columns of a version that tests check. */
export interface VersionRow {
  readonly version: number;
  readonly state: string;
  readonly delivered_count: number;
  readonly wrapped: string | null;
  readonly retired_reason: string | null;
}

export interface TokenService {
  readonly database: TestDatabase;
  readonly sql: Pick<PgPool, "query">;
  readonly pools: { readonly rotator: Pool };
  readonly rules: RotationRules;
  readonly clock: { now(): number };
  /** Entries for the compliance log so far. */
  readonly entries: readonly RotationEntry[];
  /** Log lines so far. */
  readonly log: readonly string[];
  readonly append: AppendRotationEntry;
  /** Advances the time. */
  advance(ms: number): void;
  /** Creates a production credential; `bound` registers {@link CERTIFICATE}. */
  createCredential(bound: boolean): Promise<TestCredential>;
  /** Sends a token request; rejects with the endpoint's error. */
  request(client: TestCredential, secret?: string, certificate?: ClientCertificate): Promise<TokenResponse>;
  /** Returns the outcome of a request: the successor's version, `token` if there is none, or the error code. */
  outcome(client: TestCredential, secret?: string, certificate?: ClientCertificate): Promise<number | string>;
  versions(client: TestCredential): Promise<VersionRow[]>;
  /** Changes the pepper; the old one remains known. */
  changePepper(): void;
  close(): Promise<void>;
}

interface Parts {
  readonly database: TestDatabase;
  readonly pools: Readonly<Record<"issuer" | "rotator" | "operator", Pool>>;
  readonly sql: PgPool;
  readonly lines: string[];
  readonly entries: RotationEntry[];
  readonly clock: { now(): number };
}

/** Also collects entries here, once they are in the log. */
function listingEntries(entries: RotationEntry[], append: AppendRotationEntry): AppendRotationEntry {
  return async (db, entry) => {
    await append(db, entry);
    entries.push(entry);
  };
}

function createServices(
  parts: Parts,
  pepper: Pepper,
): TokenServices & {
  readonly lastUsed: Pick<LastUsedRecorder, "note" | "close">;
  readonly close: () => Promise<void>;
} {
  const { pools, clock, lines } = parts;
  const log = createLogger({ level: "trace", destination: { write: (line) => void lines.push(line) } });
  const append = listingEntries(parts.entries, createRotationLog("client", { clock, randomBytes }));
  const notices = new RotationNotices({ timers: machineTimers, pool: pools.rotator, clock, append, log });
  const writes: Promise<void>[] = [];
  const lastUsed: Pick<LastUsedRecorder, "note" | "close"> = {
    note: ({ credential_id: credentialId }, { version }) => {
      const use = { credential_id: credentialId, version, usedAtMs: clock.now() };
      // An unwritable database does not fail the request.
      writes.push(touchVersions(pools.issuer, "secret_versions", [use]).catch(() => undefined));
    },
    close: async () => void (await Promise.all(writes.splice(0))),
  };
  return {
    timers: machineTimers,
    authenticate: createClientAuthenticator({
      findClient: createClientLookup(pools.issuer, machineTimers),
      findRetiredClient: createRetiredClientLookup(pools.issuer, clock, machineTimers),
      verifyAssertion: async () => await Promise.resolve(undefined),
      pepper,
      rules: RULES,
      clock,
      onOldMac: ({ newMac: mac, ...old }) =>
        void writes.push(replaceMac(pools.issuer, old, { mac_key_id: pepper.id, mac })),
      onRetiredSecret: (client, { version }) => notices.late("misuse", { ...client, version }),
    }),
    mint: async ({ credentialId, secretVersion }) =>
      await Promise.resolve({ token: `${credentialId}/${secretVersion}`, jti: "", kid: "" }),
    lastUsed,
    issued: { note: () => undefined },
    rotation: new TokenRotationService({
      pool: pools.rotator,
      pepper,
      rules: RULES,
      clock,
      randomBytes,
      notices,
      append,
      log,
    }),
    // Lift limits: years of daily requests happen within seconds here.
    limits: {
      identify: async (_address, identify) => await identify(),
      admitClient: () => undefined,
      authenticate: async (_address, _client, authenticate) => await authenticate(),
    },
    clock,
    issuableFrom: () => 0,
    replaceRevokedKey: async () => await Promise.resolve(false),
    audience: "signet",
    resources: [],
    close: async () => {
      await lastUsed.close();
      await notices.close();
    },
  };
}

async function insertPrincipal(
  sql: PgPool,
  nowMs: number,
): Promise<{ tenantId: string; principalId: string }> {
  const [tenantId, roleId, principalId] = (["tenant", "role", "principal"] as const).map((noun) =>
    newId(noun, nowMs, randomBytes),
  ) as [string, string, string];
  const at = new Date(nowMs);
  await sql.query(
    "INSERT INTO tenants (id, name, region, data_key, created_at) VALUES ($1, 'tenant', 'eu', '', $2)",
    [tenantId, at],
  );
  await sql.query(
    "INSERT INTO roles (id, tenant_id, name, scopes, created_at) VALUES ($1, $2, 'role', '{a:b}', $3)",
    [roleId, tenantId, at],
  );
  await sql.query(
    `INSERT INTO principals (id, tenant_id, role_id, name, region, environment, scopes, provisioned_at, created_at)
      VALUES ($1, $2, $3, 'principal', 'eu', 'production', '{a:b}', $4, $4)`,
    [principalId, tenantId, roleId, at],
  );
  return { tenantId, principalId };
}

async function startTokenService(): Promise<TokenService> {
  const database = await createTestDatabase();
  const silent = createLogger({ level: "silent" });
  const open = (role: ServiceRole): Pool => createPool({ url: database.url, role, max: 4, log: silent });
  const pools = {
    issuer: open("signet_issuer"),
    rotator: open("signet_rotator"),
    operator: open("signet_operator"),
  };
  const sql = new PgPool({ connectionString: database.adminUrl, max: 2 });
  sql.on("error", () => undefined);
  let nowMs = Date.UTC(2027, 0, 1);
  const clock = { now: () => nowMs };
  const parts: Parts = { database, pools, sql, lines: [], entries: [], clock };
  let pepperKey = randomBytes(32);
  let pepper = new Pepper(pepperKey);
  let services = createServices(parts, pepper);
  const closing: Promise<void>[] = [];

  const service: TokenService = {
    database,
    sql,
    pools,
    rules: RULES,
    clock,
    entries: parts.entries,
    log: parts.lines,
    append: listingEntries(parts.entries, createRotationLog("sweep", { clock, randomBytes })),
    advance: (ms) => {
      nowMs += ms;
    },
    createCredential: async (bound) => {
      const { tenantId, principalId } = await insertPrincipal(sql, nowMs);
      const { row, clientSecret } = await issueCredential(
        { id: principalId, tenant_id: tenantId, environment: "production" },
        { name: null, san_uri: null, certificate_thumbprints: bound ? [CERTIFICATE.thumbprint] : [] },
        { db: pools.operator, pepper, rules: RULES, clock, randomBytes },
      );
      return { credentialId: row.id, tenantId, clientId: row.client_id, secret: clientSecret };
    },
    request: async (client, secret = client.secret, clientCertificate) => {
      const body = { grant_type: "client_credentials", client_id: client.clientId, client_secret: secret };
      const answer = await issueToken(
        {
          body: Buffer.from(JSON.stringify(body)),
          contentType: "application/json",
          authorization: undefined,
          query: {},
          address: "127.0.0.1",
          clientCertificate,
        },
        services,
      );
      // Flush what a request leaves behind before the next one.
      await services.lastUsed.close();
      return answer;
    },
    outcome: async (...request) => {
      try {
        return (await service.request(...request)).credential_rotation?.version ?? "token";
      } catch (error) {
        return (error as { readonly code: string }).code;
      }
    },
    versions: async ({ credentialId }) =>
      (
        await sql.query<VersionRow>(
          "SELECT * FROM secret_versions WHERE credential_id = $1 ORDER BY version",
          [credentialId],
        )
      ).rows,
    changePepper: () => {
      closing.push(services.close());
      const previous = pepperKey;
      pepperKey = randomBytes(32);
      pepper = new Pepper(pepperKey, [previous]);
      services = createServices(parts, pepper);
    },
    close: async () => {
      await Promise.all([...closing, services.close()]);
      await Promise.all([...Object.values(pools), sql].map(async (pool) => await pool.end()));
      await database.drop();
    },
  };
  return service;
}

/** Provides one token service to the calling file. */
export function useTokenService(): { readonly current: TokenService } {
  return useStarted("the token service", startTokenService);
}

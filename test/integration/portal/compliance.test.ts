/** The portal's pages about the compliance log, and the data with which browsers verify entries. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { verifyEntry } from "#lib/transparency-log/compliance-proof.ts";
import { appendEntry } from "#compliance/append-entry.ts";
import { createPool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestApi } from "#test/support/api.ts";
import { openTestSigner, type TestSigner } from "#test/support/checkpoints.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { startSignet } from "#test/support/signet-command.ts";
import { createEndpoint, createTenant, rows, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "compliance:read", "credentials:read"];
const HOSTILE = `<script>alert("1")</script>`;
const UNESCAPES: Readonly<Record<string, string>> = { "&quot;": '"', "&#39;": "'", "&amp;": "&" };

let tenant: Tenant;
let other: Tenant;
let visitor: PortalVisitor;
let signer: TestSigner;
let endpoint: string;

/** Creates entries of a tenant, some with fields that only operators write. */
async function append(owner: Tenant, reason: string, count = 1): Promise<void> {
  const pool = createPool({
    url: api.database.url,
    role: "signet_operator",
    max: 1,
    log: createLogger({ level: "silent" }),
  });
  try {
    await transaction(pool, async (db) => {
      for (let made = 0; made < count; made += 1) {
        await appendEntry(
          db,
          {
            type: "tenant.held",
            actor: "operator:root",
            tenant: owner.tenantId,
            target: owner.tenantId,
            reason,
            details: { note: HOSTILE },
          },
          { clock: systemClock, randomBytes },
        );
      }
    });
  } finally {
    await pool.end();
  }
}

async function indexOf(owner: Tenant, type: string): Promise<number> {
  const [entry] = rows(await owner.get(`/v1/compliance/entries?type=${type}&limit=1`));
  return Number(entry?.["index"]);
}

beforeAll(async () => {
  signer = openTestSigner(api);
  tenant = await createTenant(api, SCOPES);
  other = await createTenant(api, SCOPES);
  ({ id: endpoint } = await createEndpoint(api, tenant));
  await createEndpoint(api, other);
  visitor = await signInToPortal(api, tenant.token);
});
afterAll(async () => {
  await signer?.close();
});

describe("the list", () => {
  test("shows only the tenant's entries, newest first", async () => {
    const { status, text } = await visitor.get("/portal/compliance");
    expect(status).toBe(200);
    const shown = [...text.matchAll(/href="\/portal\/compliance\/(\d+)"/g)].map(([, index]) => Number(index));
    const own = rows(await tenant.get("/v1/compliance/entries")).map(({ index }) => Number(index));
    expect(shown).toEqual(own);
    expect(shown).toEqual(shown.toSorted((one, two) => two - one));
    expect(text).toContain(`/portal/endpoints/${endpoint}"`);
    expect(text).not.toContain(other.tenantId);
    expect(text).toMatch(/<a href="\/portal\/compliance" aria-current="page"\s*>Compliance<\/a>/);
  });

  test("filters by type and time, and reports invalid filters", async () => {
    const index = await indexOf(tenant, "endpoint.created");
    const shows = async (query: string): Promise<boolean> => {
      const page = await visitor.get(`/portal/compliance?${query}`);
      expect(page).toMatchObject({ status: 200 });
      return page.text.includes(`/portal/compliance/${index}"`);
    };
    expect(await shows("type=endpoint.created&from=&to=")).toBe(true);
    expect(await shows("type=portal.signed_in")).toBe(false);
    expect(await shows("from=2025-01-01T00:00")).toBe(true);
    expect(await shows("to=2025-01-01T00:00")).toBe(false);
    for (const query of ["type=no.type", "from=yesterday", "cursor=none"]) {
      const page = await visitor.get(`/portal/compliance?${query}`);
      expect({ query, status: page.status }).toEqual({ query, status: 400 });
      expect(page.text).toContain('role="alert"');
    }
  });

  test("continues on the next page with the same filters", async () => {
    await append(tenant, "many", 60);
    const first = await visitor.get("/portal/compliance?type=tenant.held");
    const [, more = ""] = /href="([^"]+)"\s*>Older</.exec(first.text) ?? [];
    expect(more).toContain("type=tenant.held");
    const second = await visitor.get(more.replaceAll("&amp;", "&"));
    const count = (text: string): number => [...text.matchAll(/href="\/portal\/compliance\/\d+"/g)].length;
    expect([count(first.text), count(second.text)]).toEqual([50, 10]);
    expect(second.text).not.toContain(">Older<");
    expect(second.text).toContain(">Newest<");
  });

  test("is linked only for sessions that may read it", async () => {
    const unauthorised = await signInToPortal(api, tenant.token, { scopes: ["webhooks:read"] });
    expect((await unauthorised.get("/portal")).text).not.toContain("/portal/compliance");
    expect(await unauthorised.get("/portal/compliance")).toMatchObject({ status: 403 });
  });
});

describe("an entry", () => {
  test("is shown with escaped texts, and another tenant's does not exist", async () => {
    await append(tenant, HOSTILE);
    const index = await indexOf(tenant, "tenant.held");
    const { status, text } = await visitor.get(`/portal/compliance/${index}`);
    expect(status).toBe(200);
    expect(text).toContain(`Entry ${index}: tenant.held`);
    expect(text).not.toContain(HOSTILE);
    expect(text).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;");
    const foreign = await indexOf(other, "endpoint.created");
    for (const path of [`${foreign}`, `${foreign}/proof`, "999999", "999999/proof", "-1", "01", "x", "1e3"]) {
      const { status } = await visitor.get(`/portal/compliance/${path}`);
      expect({ path, status }).toEqual({ path, status: 404 });
    }
  });

  test("that no checkpoint covers yet says so and has no proof", async () => {
    await signer.sign();
    await append(tenant, "young");
    const index = await indexOf(tenant, "tenant.held");
    expect((await visitor.get(`/portal/compliance/${index}`)).text).toContain(
      "No checkpoint covers this entry",
    );
    const answer = await visitor.get(`/portal/compliance/${index}/proof`);
    expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
    expect(answer.body["detail"]).toContain("within a minute");
    expect(answer.headers.get("content-type")).toContain("application/json");
  });

  test("has proofs of inclusion and consistency that the client library accepts with the key", async () => {
    await signer.sign();
    const index = await indexOf(tenant, "tenant.held");
    const first = await visitor.get(`/portal/compliance/${index}/proof`);
    expect(first).toMatchObject({ status: 200, body: { verifier_key: signer.key.verifierKey } });
    expect(first.body).not.toHaveProperty("consistency");
    const earlier = String(first.body["note"]);
    await append(tenant, "later", 3);
    await signer.sign();
    const size = Number(earlier.split("\n")[1]);
    const { body } = await visitor.get(`/portal/compliance/${index}/proof?from=${size}`);
    const given = body as { entry: string; note: string; hashes: string[]; consistency: string[] };
    const source = {
      entry: async () => await Promise.resolve({ index, entry: given.entry }),
      checkpoint: async () => await Promise.resolve({ note: given.note }),
      inclusion: async () => await Promise.resolve({ hashes: given.hashes }),
      consistency: async () => await Promise.resolve({ hashes: given.consistency }),
    };
    const options = { verifierKeys: [signer.key.verifierKey], earlier: [earlier], crypto: NODE_CRYPTO };
    expect(await verifyEntry(source, index, options)).toMatchObject({ entry: { type: "tenant.held" } });
    // For a larger tree than the service has, the browser finds that the log has shrunk.
    const beyond = await visitor.get(`/portal/compliance/${index}/proof?from=${size + 1_000_000}`);
    expect(beyond).toMatchObject({ status: 200 });
    expect(beyond.body).not.toHaveProperty("consistency");
    for (const from of ["0", "-1", "x", "1.5"]) {
      const wrong = await visitor.get(`/portal/compliance/${index}/proof?from=${from}`);
      expect({ from, status: wrong.status }).toEqual({ from, status: 400 });
    }
  });

  test("shows commands that verify it as they are", async () => {
    const index = await indexOf(tenant, "endpoint.created");
    const { text } = await visitor.get(`/portal/compliance/${index}`);
    const commands = [...text.matchAll(/<code data-copy="">(signet [^<]+)<\/code>/g)].map(
      ([, command = ""]) => command.replaceAll(/&(?:quot|#39|amp);/g, (entity) => UNESCAPES[entity] ?? ""),
    );
    expect(commands).toEqual([
      `signet compliance verify ${index} --vkey "$VKEY"`,
      `signet audit verify --entry ${index} --vkey "$VKEY"`,
      `signet audit verify --vkey "$VKEY"`,
    ]);
    const home = await mkdtemp(join(tmpdir(), "signet-portal-"));
    const environment = {
      ...api.environment,
      SIGNET_API_URL: api.publicUrl,
      SIGNET_CLIENT_ID: tenant.clientId,
      SIGNET_CLIENT_SECRET: tenant.clientSecret,
      SIGNET_HOME: home,
      SIGNET_CONFIG_DIR: home,
    };
    try {
      for (const command of commands) {
        const run = async (vkey: string) =>
          await startSignet(
            command
              .split(" ")
              .slice(1)
              .map((word) => (word === '"$VKEY"' ? vkey : word)),
            environment,
          ).ended;
        expect(await run(signer.key.verifierKey)).toMatchObject({ code: 0, stderr: "" });
        const foreign = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
        expect((await run(foreign)).code).toBe(1);
      }
    } finally {
      await rm(home, { recursive: true, force: true });
    }
  });
});

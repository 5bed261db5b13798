/** Lists filtered by the endpoints' metadata: `metadata[key]=value`. */
import { beforeAll, describe, expect, test } from "vitest";
import { SignetClient } from "#lib/client/index.ts";
import { useSharedApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  type Json,
  listAll,
  publish,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const ENDPOINTS = "/v1/webhooks/endpoints";
const DELIVERIES = "/v1/webhooks/deliveries";
/** Metadata by endpoint name, as the tenant wrote it. */
const METADATA = {
  eu: '{"region":"eu","plan":"gold"}',
  us: '{"region":"us","plan":"gold","rank":1.0}',
  none: undefined,
  // PostgreSQL cannot convert these to text.
  nul: '{"region":"\\u0000eu"}',
  surrogate: '{"region":"\\ud800"}',
  nested: '{"region":{"name":"eu"}}',
  bracket: '{"a]b":"c","%":"&=+"}',
} as const;
type Name = keyof typeof METADATA;

let tenant: Tenant;
const ids = new Map<string, Name>();

function query(wanted: Readonly<Record<string, string>>): string {
  return Object.entries(wanted)
    .map(([key, value]) => `${encodeURIComponent(`metadata[${key}]`)}=${encodeURIComponent(value)}`)
    .join("&");
}

async function namesOf(
  path: string,
  wanted: Readonly<Record<string, string>>,
  member: string,
): Promise<Name[]> {
  const found = await listAll(tenant, `${path}?${query(wanted)}`, 1);
  return found.map((item: Json) => ids.get(item[member] as string) as Name).toSorted();
}

beforeAll(async () => {
  tenant = await createTenant(api);
  for (const [name, metadata] of Object.entries(METADATA)) {
    const { id } = await createEndpoint(api, tenant, {
      events: ["a.b"],
      ...(metadata === undefined ? {} : { metadata: JSON.parse(metadata) as Json }),
    });
    ids.set(id, name as Name);
  }
  await publish(tenant, { type: "a.b" });
});

describe.each([
  [ENDPOINTS, "id"],
  [DELIVERIES, "endpoint_id"],
])("%s", (path, member) => {
  test.each<[Readonly<Record<string, string>>, readonly Name[]]>([
    [{ region: "eu" }, ["eu"]],
    [{ plan: "gold" }, ["eu", "us"]],
    [{ plan: "gold", region: "us" }, ["us"]],
    [{ plan: "gold", region: "asia" }, []],
    [{ missing: "" }, []],
    [{ region: '{"name":"eu"}' }, ["nested"]],
    [{ "%": "&=+" }, ["bracket"]],
  ])("the filter %o finds the endpoints that match", async (wanted, names) => {
    expect(await namesOf(path, wanted, member)).toEqual(names);
  });

  test.each([
    ["no members", "metadata=eu"],
    ["a duplicate member", "metadata[region]=eu&metadata[region]=us"],
    ["no name", "metadata[]=eu"],
    ["an unclosed name", "metadata[region=eu"],
    ["NUL", "metadata[region]=%00"],
    ["nine members", Array.from({ length: 9 }, (_, n) => `metadata[k${n}]=v`).join("&")],
    ["a long value", `metadata[region]=${"x".repeat(1_025)}`],
  ])("the list rejects a filter with %s", async (_why, text) => {
    expect(await tenant.get(`${path}?${text}`)).toMatchObject({
      status: 400,
      body: { code: "INVALID_REQUEST" },
    });
  });

  test("a cursor applies only to the same filter, in any order", async () => {
    const first = await tenant.get(`${path}?metadata[plan]=gold&metadata[region]=eu&limit=1`);
    expect(first.status).toBe(200);
    const page = await tenant.get(`${path}?metadata[plan]=gold&limit=1`);
    const cursor = page.body["next_cursor"] as string;
    expect(await tenant.get(`${path}?metadata[plan]=gold&limit=1&cursor=${cursor}`)).toMatchObject({
      status: 200,
    });
    expect(await tenant.get(`${path}?metadata[plan]=silver&limit=1&cursor=${cursor}`)).toMatchObject({
      status: 400,
    });
  });
});

describe("a replay", () => {
  const REPLAY = "/v1/webhooks/dlq/replay";

  test("selects by the same filter as the list", async () => {
    await sql(
      api,
      `UPDATE deliveries SET state = 'DEAD_LETTERED', expires_at = now() + interval '1 d', reason = 'attempts_exhausted',
        dead_lettered_at = now() WHERE tenant_id = $1`,
      [tenant.tenantId],
    );
    const choices: Readonly<Record<string, string>>[] = [{ plan: "gold" }, { region: "us" }, { missing: "" }];
    for (const metadata of choices) {
      const listed = rows(await tenant.get(`/v1/webhooks/dlq?${query(metadata)}`));
      const counted = await tenant.post(REPLAY, { filter: { metadata }, dry_run: true });
      expect(counted.body).toEqual({ dry_run: true, total: listed.length });
    }
  });

  test.each([{}, { region: 1 }, { region: null }, "eu", Array.from({ length: 9 })])(
    "with the metadata filter %j is rejected",
    async (metadata) => {
      const refused = await tenant.post(REPLAY, { filter: { metadata }, dry_run: true });
      expect(refused).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
    },
  );
});

test("other lists reject a metadata filter", async () => {
  expect(await tenant.get("/v1/events?metadata[region]=eu")).toMatchObject({ status: 400 });
});

test("the client library filters by metadata", async () => {
  const client = new SignetClient({
    baseUrl: api.publicUrl,
    clientId: tenant.clientId,
    clientSecret: tenant.clientSecret,
  });
  const found: string[] = [];
  for await (const { id } of client.endpoints.list({ metadata: { plan: "gold", region: "us" } })) {
    found.push(ids.get(id) as string);
  }
  expect(found).toEqual(["us"]);
});

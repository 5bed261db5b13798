/** What a home cell takes from another cell, and the other's portal, whose principals are at home (decision 35). */
import { Client } from "pg";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { readAnswer } from "#test/support/answer.ts";
import { call, useCells, verifiedEntries } from "#test/support/cells.ts";
import { eventually } from "#test/support/eventually.ts";
import { mintLink, openLink, signInToPortal } from "#test/support/portal.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { sql } from "#test/support/tenant.ts";

const cells = await useCells();
const { home, us, homeUrl, usUrl, client, untilKnown, activeEndpoint } = cells;

let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(async () => await receiver.close());

test("the log of the home cell has every entry of the cell once, in order, and stays verifiable", async () => {
  const { token } = await client("us");
  await untilKnown(token);
  await activeEndpoint(token, { url: `${receiver.url}/log`, events: ["order.paid"] });
  await eventually(async () => {
    const [sent] = await sql(home, "SELECT size FROM cell_logs WHERE cell = 'us'");
    const [own] = await sql(us, "SELECT size FROM clog_head WHERE log_id = 1");
    const waiting = await sql(home, "SELECT FROM cell_entries WHERE cell = 'us'");
    return own !== undefined && sent?.["size"] === own["size"] && waiting.length === 0;
  }, "all entries to arrive");
  const places = await sql(
    home,
    `SELECT (convert_from(entry, 'UTF8')::json #>> '{details,cell_index}')::int AS place FROM clog
      WHERE convert_from(entry, 'UTF8')::json #>> '{details,cell}' = 'us' ORDER BY idx`,
  );
  expect(places.length).toBeGreaterThan(0);
  expect(places.map(({ place }) => place)).toEqual(places.map((_row, index) => index));
  expect(await verifiedEntries(home)).toBeGreaterThan(places.length);
});

test("a cell in other hands writes nothing that the home cell's log cannot hold, and nothing to other regions", async () => {
  const [own, foreign] = await Promise.all([client("ca"), client("eu")]);
  // This client belongs where its tenant does.
  await client("global", { tenantId: foreign.tenantId });
  const login = new Client({ connectionString: await cells.login("ca") });
  await login.connect();
  onTestFinished(async () => {
    await login.end();
    await sql(home, "DELETE FROM cell_entries WHERE cell = 'ca'");
  });
  await login.query("SET ROLE signet_cell");
  const claim = (place: number, tenant: string, more = "") => ({
    before: `{"at":"${new Date().toISOString()}", "actor":"operator:x","details":{"cell":"ca","cell_index":${place}},"idx":`,
    after: `,"reason":null,"request_id":null,"target":"${tenant}","salt":"00","tenant":"${tenant}","type":"tenant.erased","v":1${more}}`,
  });
  const claims = [
    claim(0, own.tenantId),
    claim(1, foreign.tenantId),
    claim(2, own.tenantId, ',"zzz":1.5'),
    claim(3, own.tenantId),
  ];
  await login.query("SELECT append_cell_entries('ca', 0, $1::bytea[], $2::bytea[], NULL, $3::bytea[])", [
    claims.map(({ before }) => Buffer.from(before)),
    claims.map(({ after }) => Buffer.from(after)),
    claims.map(() => Buffer.from("leaf")),
  ]);
  const entries = async () =>
    await sql(
      home,
      `SELECT tenant_id, convert_from(entry, 'UTF8')::json -> 'details' AS details FROM clog
        WHERE convert_from(entry, 'UTF8')::json #>> '{details,cell}' = 'ca' ORDER BY idx`,
    );
  await eventually(async () => (await entries()).length === 2, "the home cell to take what it can");
  expect(await entries()).toEqual([
    { tenant_id: own.tenantId, details: { cell: "ca", cell_index: 0 } },
    { tenant_id: null, details: { cell: "ca", cell_index: 1, cell_tenant: foreign.tenantId } },
  ]);
  const seen = await call(homeUrl, foreign.token, "/v1/compliance/entries?type=tenant.erased");
  expect(seen).toMatchObject({ status: 200, body: { data: [] } });
  // The other cells' logs go on, and the third entry does not come later.
  const { token, tenantId } = await client("us");
  await untilKnown(token);
  await activeEndpoint(token, { url: `${receiver.url}/after`, events: ["order.paid"] });
  await eventually(
    async () =>
      (await sql(home, "SELECT FROM clog WHERE tenant_id = $1 AND type = 'endpoint.created'", [tenantId]))
        .length === 1,
    "an entry of another cell",
  );
  expect(await entries()).toHaveLength(2);
  expect(await verifiedEntries(home)).toBeGreaterThan(2);
});

/** The cell `us`, as browsers see it. */
const usSite = {
  publicUrl: usUrl,
  request: async (path: string, init?: RequestInit) => await readAnswer(await fetch(usUrl + path, init)),
};

test("the portal of a cell signs in, shows pages and acts", async () => {
  const { token } = await client("us");
  await untilKnown(token);
  const endpoint = await activeEndpoint(token, { url: `${receiver.url}/portal`, events: ["order.paid"] });
  const visitor = await eventually(async () => {
    const signedIn = await signInToPortal(usSite, token);
    return signedIn.cookie !== "" && signedIn;
  }, "the cell to have followed the revocations once");
  for (const path of ["/portal", "/portal/endpoints", `/portal/endpoints/${endpoint}`, "/portal/sessions"]) {
    expect(await visitor.get(path), path).toMatchObject({ status: 200 });
  }
  expect((await visitor.get("/portal/endpoints")).text).toContain(`${receiver.url}/portal`);
  expect(await visitor.post(`/portal/endpoints/${endpoint}/disable`)).toMatchObject({ status: 303 });
  expect(await call(usUrl, token, `/v1/webhooks/endpoints/${endpoint}`)).toMatchObject({
    body: { state: "DISABLED" },
  });
});

test.each(["credential", "principal", "token"])(
  "a portal session of a cell ends with the revocation of its %s at home, and stays ended",
  async (kind) => {
    const made = await client("us");
    await untilKnown(made.token);
    const visitor = await signInToPortal(usSite, made.token);
    expect(await visitor.get("/portal")).toMatchObject({ status: 200 });
    const unused = await mintLink(usSite, made.token);
    const { jti } = JSON.parse(
      Buffer.from(made.token.split(".")[1] ?? "", "base64url").toString(),
    ) as Readonly<Record<string, string>>;
    const path = {
      credential: `/credentials/${made.credentialId}/revoke`,
      principal: `/principals/${made.principalId}/revoke`,
      token: "/revocations",
    }[kind];
    const body = kind === "token" ? { kind: "jti", target: jti } : {};
    // Answered when every process has applied it, or must have: within 250 ms.
    expect(await home.admin("POST", path ?? "", body)).toMatchObject({ status: 200 });
    expect(await visitor.get("/portal")).toMatchObject({ status: 401 });
    expect(await openLink(usSite, unused)).toMatchObject({ status: 401 });
    // Processes forget the revocation before a session would end by itself.
    await eventually(
      async () =>
        (await sql(us, "SELECT FROM portal_sessions WHERE tenant_id = $1", [made.tenantId])).length === 0,
      "the session's row to be gone",
    );
    expect(await sql(us, "SELECT FROM portal_links WHERE tenant_id = $1", [made.tenantId])).toEqual([]);
  },
);

test("no portal session of a cell is open while its worker does not follow the revocations", async () => {
  const { token } = await client("us");
  await untilKnown(token);
  const visitor = await signInToPortal(usSite, token);
  expect(await visitor.get("/portal")).toMatchObject({ status: 200 });
  const right = "EXECUTE ON FUNCTION revocations_for_cells(bigint, int)";
  await sql(home, `REVOKE ${right} FROM signet_cell`);
  const allow = async (): Promise<unknown> => await sql(home, `GRANT ${right} TO signet_cell`);
  onTestFinished(async () => void (await allow()));
  // As it is a minute later. A pass that had begun before may still say that it has followed.
  await eventually(async () => {
    await sql(us, "UPDATE home_position SET at = at - interval '61 seconds'");
    return (await visitor.get("/portal")).status !== 200;
  }, "the session to be refused");
  // As after the clock of the cell's PostgreSQL went back by an hour.
  await sql(us, "UPDATE home_position SET at = clock_timestamp() + interval '1 hour'");
  expect((await visitor.get("/portal")).status).not.toBe(200);
  await allow();
  await eventually(async () => (await visitor.get("/portal")).status === 200, "the session to be open again");
});

test("a portal session of a cell has no scopes of the home cell", async () => {
  const { token, tenantId } = await client("us");
  await untilKnown(token);
  const link = await call(usUrl, token, "/v1/portal/links", {});
  expect(link).toMatchObject({ status: 201 });
  expect(String(link.body["url"])).toContain(usUrl);
  const [stored] = await sql(us, "SELECT scopes FROM portal_links WHERE tenant_id = $1", [tenantId]);
  expect(stored).toEqual({ scopes: ["events:publish", "webhooks:read", "webhooks:write"] });
});

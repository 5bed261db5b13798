/** A certificate goes along with whatever a browser sends, and with the connection for as long as that lasts. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { beforeAll, expect, test } from "vitest";
import { clientPair, thumbprint } from "../../support/certificates.ts";
import { useTlsAdmin } from "../../support/tls-admin.ts";

const { api, root, ask, asBootstrap } = await useTlsAdmin();

const pair = await clientPair(root);

let tenant: string;
beforeAll(async () => {
  const operator = { name: "ann", role: "security", certificate_thumbprints: [thumbprint(pair)] };
  await ask("/operators", asBootstrap(operator));
  const made = await ask("/tenants", asBootstrap({ name: "Example", region: "eu" }));
  tenant = String(made.body["id"]);
});

/** What browsers say of a request that a page has them send, with the certificate and without asking. */
const FOREIGN = [
  { "sec-fetch-site": "cross-site", origin: "https://evil.example" },
  { "sec-fetch-site": "same-site", origin: "https://other.service.example" },
  { "sec-fetch-site": "cross-site" },
  { origin: "https://evil.example" },
  { origin: "null" },
];

test.each(FOREIGN)(
  "a page of somebody else's cannot act with an operator's certificate: %o",
  async (headers) => {
    expect(await ask(`/tenants/${tenant}/suspend`, { pair, method: "POST", headers })).toMatchObject({
      status: 400,
      body: { code: "INVALID_REQUEST" },
    });
    expect(await ask(`/tenants/${tenant}`, { pair })).toMatchObject({
      status: 200,
      body: { state: "ACTIVE" },
    });
  },
);

test("who asks without a page, or with a token besides, is served as ever", async () => {
  const typed = { "sec-fetch-site": "none" };
  expect(await ask(`/tenants/${tenant}`, { pair, headers: typed })).toMatchObject({ status: 200 });
  const headers = { ...FOREIGN[0], authorization: `Bearer ${api.operatorToken}` };
  expect(await ask(`/tenants/${tenant}`, { pair, headers })).toMatchObject({ status: 200 });
});

test("an export of the compliance log breaks off when the certificate that it is read with is revoked", async () => {
  const holder = new Client({ connectionString: api.database.adminUrl });
  await holder.connect();
  try {
    // The export's first lines are there; the entries let it wait.
    await holder.query("BEGIN; LOCK TABLE clog_tile IN ACCESS EXCLUSIVE MODE");
    const request = get({
      host: "127.0.0.1",
      port: api.adminPort,
      path: "/admin/v1/audit/export",
      agent: false,
      ca: root.cert,
      ...pair,
    });
    const [answer] = (await once(request, "response")) as [IncomingMessage];
    expect(answer.statusCode).toBe(200);
    await once(answer, "data");
    const [broken, revoked] = await Promise.allSettled([
      text(answer),
      ask("/revocations", asBootstrap({ kind: "cert", target: thumbprint(pair) })),
    ]);
    expect(revoked).toMatchObject({ value: { status: 200 } });
    expect(broken).toMatchObject({ status: "rejected", reason: { message: "aborted" } });
    expect(api.log.join("")).toContain("response aborted: caller no longer admitted");
  } finally {
    await holder.end();
  }
});

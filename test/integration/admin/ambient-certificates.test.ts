/** Browsers attach a client certificate to every request; connections keep it until they close. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { beforeAll, expect, test } from "vitest";
import { clientPair, thumbprint } from "#test/support/certificates.ts";
import { useTlsAdmin } from "#test/support/tls-admin.ts";

const { api, root, ask, asBootstrap } = await useTlsAdmin();

const pair = await clientPair(root);

let tenant: string;
beforeAll(async () => {
  const operator = { name: "ann", role: "security", certificate_thumbprints: [thumbprint(pair)] };
  await ask("/operators", asBootstrap(operator));
  const made = await ask("/tenants", asBootstrap({ name: "Example", region: "eu" }));
  tenant = String(made.body["id"]);
});

/** Headers that browsers add to a request from a foreign page, which carries the certificate unasked. */
const FOREIGN = [
  { "sec-fetch-site": "cross-site", origin: "https://evil.example" },
  { "sec-fetch-site": "same-site", origin: "https://other.service.example" },
  { "sec-fetch-site": "cross-site" },
  { origin: "https://evil.example" },
  { origin: "null" },
];

test.each(FOREIGN)("a foreign page cannot act with an operator's certificate: %o", async (headers) => {
  expect(await ask(`/tenants/${tenant}/suspend`, { pair, method: "POST", headers })).toMatchObject({
    status: 400,
    body: { code: "INVALID_REQUEST" },
  });
  expect(await ask(`/tenants/${tenant}`, { pair })).toMatchObject({
    status: 200,
    body: { state: "ACTIVE" },
  });
});

test("requests without a page, or with an additional token, are served", async () => {
  const typed = { "sec-fetch-site": "none" };
  expect(await ask(`/tenants/${tenant}`, { pair, headers: typed })).toMatchObject({ status: 200 });
  const headers = { ...FOREIGN[0], authorization: `Bearer ${api.operatorToken}` };
  expect(await ask(`/tenants/${tenant}`, { pair, headers })).toMatchObject({ status: 200 });
});

test("an export of the compliance log breaks off when its certificate is revoked", async () => {
  const holder = new Client({ connectionString: api.database.adminUrl });
  await holder.connect();
  try {
    // The first lines are sent; the table lock holds back the rest.
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

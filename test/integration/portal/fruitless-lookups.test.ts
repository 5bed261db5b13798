/** Lookups of unknown names without credentials are limited per address. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { accessToken, provision } from "#test/support/factories.ts";
import { signInToPortal } from "#test/support/portal.ts";
import { createProducer, seconds, signed } from "#test/support/producer.ts";

const LIMIT = 20;
const api = useTestApi({ environment: { SIGNET_TOKEN_RATE_PER_ADDRESS: String(LIMIT) } });
const invented = (): string =>
  `${newId("tenant", api.clock.now(), randomBytes)}.${randomBytes(32).toString("base64url")}`;

const LOOKUPS: readonly [string, number, () => Promise<Answer>][] = [
  [
    "links",
    401,
    async () =>
      await api.request("/portal/sign-in", {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" },
        body: `link=${invented()}`,
      }),
  ],
  [
    "keys",
    401,
    async () => {
      const keyId = newId("credential", api.clock.now(), randomBytes);
      const { body, headers } = signed(
        { keyId, secret: `whsec_${randomBytes(32).toString("base64")}` },
        { id: "one", type: "a.b", data: {} },
        seconds(api),
      );
      return await api.request("/v1/events", { method: "POST", headers, body });
    },
  ],
];

test("successful lookups do not count", async () => {
  const producer = await createProducer(api);
  for (let asked = 0; asked < LIMIT + 5; asked += 1) {
    const { body, headers } = signed(producer, { id: `event-${asked}`, type: "a.b", data: {} }, seconds(api));
    expect((await api.request("/v1/events", { method: "POST", headers, body })).status).toBe(202);
  }
});

test.each(LOOKUPS)("unknown %s get 429 beyond their address's rate", async (_what, status, ask) => {
  for (let asked = 0; asked < LIMIT; asked += 1) {
    expect((await ask()).status).toBe(status);
  }
  const refused = await ask();
  expect(refused.status).toBe(429);
  expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
});

test("unknown sessions get 429, too, and existing ones still work", async () => {
  const client = await provision(api, { scopes: ["portal:sign_in", "webhooks:read"] });
  const visitor = await signInToPortal(api, await accessToken(api, client));

  const visit = async (): Promise<number> =>
    (await api.request("/portal", { headers: { cookie: `signet_portal=${invented()}` } })).status;
  const seen = new Set<number>();
  for (let asked = 0; asked <= LIMIT; asked += 1) {
    seen.add(await visit());
  }
  expect(seen).toContain(429);
  expect((await visitor.get("/portal")).status).toBe(200);
  expect((await signInToPortal(api, await accessToken(api, client))).cookie).toContain("signet_portal=");
  const producer = await createProducer(api);
  const { body, headers } = signed(producer, { id: "late", type: "a.b", data: {} }, seconds(api));
  expect((await api.request("/v1/events", { method: "POST", headers, body })).status).toBe(202);
  // A visitor without a cookie is still told how to sign in.
  expect((await api.request("/portal")).status).toBe(401);
});

/** Signing in to the portal: once per link, and no longer than what it came from. */
import { expect, test } from "vitest";
import { useTestApi } from "../../support/api.ts";
import { accessToken, provision } from "../../support/factories.ts";
import { mintLink, openLink, signInToPortal } from "../../support/portal.ts";

const api = useTestApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "credentials:read"];

async function token(): Promise<string> {
  return await accessToken(api, await provision(api, { scopes: SCOPES }), SCOPES.join(" "));
}

test("a link shows a page, opens one session, and is of no use after that", async () => {
  const url = await mintLink(api, await token());
  const path = url.slice(api.publicUrl.length);
  const looks = await Promise.all([api.request(path), api.request(path)]);
  for (const look of looks) {
    expect(look.status).toBe(200);
    expect(look.text).toContain("Sign in to the portal");
  }
  const [one, other] = await Promise.all([openLink(api, url), openLink(api, url)]);
  expect(new Set([one.status, other.status])).toEqual(new Set([303, 401]));
});

test("a signed-in browser sees its pages, and nobody else does", async () => {
  const visitor = await signInToPortal(api, await token());
  const home = await visitor.get("/portal");
  expect(home.status).toBe(200);
  expect(home.text).toContain("No endpoint yet");
  expect(await api.request("/portal")).toMatchObject({ status: 401 });
  expect(await visitor.get("/portal/endpoints")).toMatchObject({ status: 200 });
});

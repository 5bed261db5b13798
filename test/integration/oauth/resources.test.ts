/** RFC 8707: a token is for one listed resource and works nowhere else. */
import { beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";

const LEDGER = "https://ledger.example/api";
const RUNS = "urn:example:runs";
const api = useTestApi({
  environment: { SIGNET_AUDIENCE: "urn:example:signet", SIGNET_RESOURCES: `${LEDGER}, ${RUNS}` },
});
let client: Provisioned;

beforeAll(async () => {
  client = await provision(api, { scopes: ["credentials:read", "tokens:introspect"] });
});

function audience(token: unknown): unknown {
  const claims = Buffer.from(String(token).split(".")[1] ?? "", "base64url").toString();
  return (JSON.parse(claims) as { aud: unknown }).aud;
}

async function token(resource?: string): Promise<string> {
  const answer = await api.token(grant(client, resource === undefined ? {} : { resource }));
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body["access_token"]);
}

async function ask(path: string, form: string, headers: Readonly<Record<string, string>> = {}) {
  const type = { "content-type": "application/x-www-form-urlencoded" };
  return await api.request(path, { method: "POST", headers: { ...type, ...headers }, body: form });
}

const credentials = (): string => `client_id=${client.clientId}&client_secret=${client.clientSecret}`;
const use = async (value: string) => await api.request("/v1/credentials", { headers: bearer(value) });

test("a token's audience is the requested resource; by default, this service", async () => {
  expect(audience(await token())).toBe("urn:example:signet");
  expect(audience(await token("urn:example:signet"))).toBe("urn:example:signet");
  expect(audience(await token(LEDGER))).toBe(LEDGER);
  expect(audience(await token(RUNS))).toBe(RUNS);
  expect(audience(await token(""))).toBe("urn:example:signet");
});

test("a token for another resource is rejected here", async () => {
  expect(await use(await token())).toMatchObject({ status: 200 });
  expect(await use(await token(LEDGER))).toMatchObject({ status: 401, body: { code: "TOKEN_INVALID" } });
});

describe("invalid_target", () => {
  const refused = { status: 400, body: { error: "invalid_target", code: "INVALID_TARGET" } };

  test.each([
    "https://ledger.example/API",
    "https://ledger.example/api/",
    "https://ledger.example/api#x",
    "https://ledger.example",
    "https://elsewhere.example",
    "nothing at all",
  ])("answers a request for an unlisted resource: %s", async (resource) => {
    expect(await api.token(grant(client, { resource }))).toMatchObject(refused);
  });

  test("answers a request for several resources, as a form and as JSON", async () => {
    const several = `grant_type=client_credentials&${credentials()}&resource=${LEDGER}&resource=${RUNS}`;
    expect(await ask("/v1/auth/token", several)).toMatchObject(refused);
    expect(await api.token(grant(client, { resource: [LEDGER, RUNS] }))).toMatchObject(refused);
  });

  test("does not answer a request that repeats another parameter", async () => {
    const twice = `grant_type=client_credentials&${credentials()}&scope=a:b&scope=a:b&resource=${LEDGER}`;
    expect(await ask("/v1/auth/token", twice)).toMatchObject({
      status: 400,
      body: { error: "invalid_request" },
    });
  });

  test("reveals nothing to a caller without the client's secret", async () => {
    const wrong = { ...grant(client), client_secret: client.clientSecret.replace(/.$/, "_") };
    const answers = [
      await api.token({ ...wrong, resource: LEDGER }),
      await api.token({ ...wrong, resource: "x:y" }),
    ];
    expect(answers.map(({ status, body }) => [status, body["error"]])).toEqual([
      [401, "invalid_client"],
      [401, "invalid_client"],
    ]);
  });
});

test("tokens for other resources can be introspected and revoked here", async () => {
  const [caller, subject] = [await token(), await token(LEDGER)];
  const introspect = async () => await ask("/v1/auth/introspect", `token=${subject}`, bearer(caller));
  expect((await introspect()).body).toMatchObject({ active: true, aud: LEDGER });
  expect(await ask("/v1/auth/revoke", `token=${subject}&${credentials()}`)).toMatchObject({ status: 200 });
  await expect.poll(async () => (await introspect()).body, { timeout: 50_000 }).toEqual({ active: false });
  // A token for another resource cannot authenticate the introspection.
  const foreign = await ask("/v1/auth/introspect", `token=${subject}`, bearer(await token(RUNS)));
  expect(foreign).toMatchObject({ status: 401 });
});

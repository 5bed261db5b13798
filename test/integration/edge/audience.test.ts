/** An edge admits tokens of its own audience, and none that the issuer created for another resource. */
import { beforeAll, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";

const LEDGER = "https://ledger.example/api";
const api = useTestApi({ environment: { SIGNET_AUDIENCE: "urn:example:signet", SIGNET_RESOURCES: LEDGER } });
const main = useTestEdge(api);
const ledger = useTestEdge(api, { environment: () => ({ SIGNET_AUDIENCE: LEDGER, SIGNET_RESOURCES: "" }) });

let client: Provisioned;
const tokens = new Map<string | undefined, string>();
beforeAll(async () => {
  client = await provision(api, {
    scopes: ["inference:read", "credentials:read"],
    environment: "development",
  });
  tokens.set(undefined, await accessToken(api, client));
  for (const resource of [LEDGER, "urn:example:signet"]) {
    const answer = await api.token(grant(client, { resource }));
    tokens.set(resource, String(answer.body["access_token"]));
  }
});

const ask = async (edge: typeof main, resource: string | undefined, path = "/v1/inference/x") =>
  await call(path, { port: edge.port, headers: bearer(tokens.get(resource) ?? "") });

test("each edge repeatedly admits only tokens of its audience", async () => {
  for (let times = 0; times < 2; times += 1) {
    for (const [edge, own, others] of [
      [main, [undefined, "urn:example:signet"], [LEDGER]],
      [ledger, [LEDGER], [undefined, "urn:example:signet"]],
    ] as const) {
      for (const resource of own) {
        expect(await ask(edge, resource)).toMatchObject({ status: 200, body: { from: "upstream" } });
      }
      const before = edge.upstream.requests.length;
      for (const resource of others) {
        expect(await ask(edge, resource)).toMatchObject({ status: 401, body: { code: "TOKEN_INVALID" } });
      }
      expect(edge.upstream.requests).toHaveLength(before);
    }
  }
});

test("the API admits only its own tokens, behind any edge", async () => {
  for (const edge of [main, ledger]) {
    expect(await ask(edge, undefined, "/v1/credentials")).toMatchObject({ status: 200 });
    expect(await ask(edge, LEDGER, "/v1/credentials")).toMatchObject({ status: 401 });
  }
});

/** Assertions of private_key_jwt in requests for tokens. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { SignetClient } from "#lib/client/signet-client.ts";
import { testRuntime } from "#test/support/client-runtime.ts";
import { CLIENT_ID, type RotatingServer, startRotatingServer } from "#test/support/rotating-server.ts";

let server: RotatingServer;

beforeEach(async () => {
  server = await startRotatingServer();
});

afterEach(async () => {
  await server.close();
});

test("each request carries a new assertion and no secret, and errors show none", async () => {
  let made = 0;
  const runtime = testRuntime();
  const clientAssertion = (audience: string) => {
    expect(audience).toBe(`${server.url}/v1/auth/token`);
    made += 1;
    return `assertion-canary-${made}`;
  };
  const signet = new SignetClient({ baseUrl: server.url, clientId: CLIENT_ID, clientAssertion, ...runtime });
  server.incidents.push(
    { kind: "answer", status: 503 },
    {
      kind: "answer",
      status: 400,
      body: { error: "invalid_request", error_description: "assertion-canary-2" },
    },
  );
  const error = await signet.accessToken().catch((reason: unknown) => reason);
  expect(String(error)).toContain("[removed]");
  expect(server.tokenRequests.map(({ body }) => body)).toEqual(
    [1, 2].map((number) => ({
      grant_type: "client_credentials",
      client_id: CLIENT_ID,
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      client_assertion: `assertion-canary-${number}`,
    })),
  );
});

/** Contract 2 and 5.4: production credentials rotate every 30 days, with no action of the client's operator. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FileCredentialStore } from "#lib/client/file-credential-store.ts";
import { SignetClient } from "#lib/client/signet-client.ts";
import { useTestApi } from "../support/api.ts";
import { grant, provision } from "../support/factories.ts";

const DAY_MS = 86_400_000;
/** In this process, because a deployed service accepts no clock that differs from its database's. */
const api = useTestApi();
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "signet-months-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

test("a client with the library runs for a year: twelve secrets, no rejected request, old secrets end", async () => {
  const client = await provision(api, { environment: "production", scopes: ["inference:read"] });
  const file = join(directory, "credential.json");
  const first = { client_id: client.clientId, client_secret: client.clientSecret, version: 1 };
  await writeFile(file, JSON.stringify(first), { mode: 0o600 });
  const signet = new SignetClient({
    baseUrl: api.publicUrl,
    store: new FileCredentialStore(file),
    clock: api.clock,
    sleep: async () => await Promise.resolve(),
  });
  const secrets: string[] = [];
  for (let day = 0; day < 365; day += 1) {
    await signet.accessToken();
    const { current } = (await new FileCredentialStore(file).load()) ?? { current: undefined };
    if (current !== undefined && !secrets.includes(current.secret)) {
      secrets.push(current.secret);
    }
    api.clock.advance(DAY_MS);
  }
  // 30 days after the first use, which is a day after the successor was returned.
  expect(secrets).toHaveLength(1 + Math.floor(364 / 31));
  for (const secret of secrets.slice(0, -1)) {
    expect(await api.token(grant(client, { client_secret: secret }))).toMatchObject({
      status: 401,
      body: { code: "INVALID_CLIENT" },
    });
  }
  expect(await api.token(grant(client, { client_secret: secrets.at(-1) }))).toMatchObject({ status: 200 });
});

test("the successor comes on day 30, not before; the old secret works until it was unused for 24 hours", async () => {
  const client = await provision(api, { environment: "production", scopes: ["inference:read"] });
  expect((await api.token(grant(client))).body).not.toHaveProperty("credential_rotation");
  api.clock.advance(30 * DAY_MS - 60_000);
  expect((await api.token(grant(client))).body).not.toHaveProperty("credential_rotation");
  api.clock.advance(61_000);
  const { body } = await api.token(grant(client));
  const { client_secret: successor } = body["credential_rotation"] as Record<string, string>;
  expect(await api.token(grant(client, { client_secret: successor }))).toMatchObject({ status: 200 });
  expect(await api.token(grant(client))).toMatchObject({ status: 200 });
  api.clock.advance(2 * DAY_MS);
  expect(await api.token(grant(client))).toMatchObject({ status: 401, body: { code: "INVALID_CLIENT" } });
  expect(await api.token(grant(client, { client_secret: successor }))).toMatchObject({ status: 200 });
});

test("a development credential does not rotate", async () => {
  const client = await provision(api, { environment: "development" });
  await api.token(grant(client));
  api.clock.advance(90 * DAY_MS);
  const answer = await api.token(grant(client));
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body).not.toHaveProperty("credential_rotation");
});

/** The demo of `npm start` waits while the api cannot know of revocations, instead of ending with REVOCATION_STALE. */
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { lightFetch } from "#cli/light-fetch.ts";
import { patientFetch } from "#processes/demo/patient-fetch.ts";
import { signIn } from "#processes/demo/tenant-api.ts";
import { useTestApi } from "#test/support/api.ts";
import { startDatabase, stopDatabase } from "#test/support/database-outage.ts";
import { eventually } from "#test/support/eventually.ts";
import { monotonicMs } from "#test/support/monotonic.ts";
import { createTenant } from "#test/support/tenant.ts";

const api = useTestApi();

test("a call during an outage says that it waits, and is answered afterwards", async () => {
  const service = { config: { databaseUrl: api.database.url } };
  const tenant = await createTenant(api, ["webhooks:read"]);
  const said: string[] = [];
  let answer: Promise<unknown> | undefined;
  const fetch = patientFetch(lightFetch, {
    say: (line) => void said.push(line),
    wait: delay,
    monotonicMs,
  });
  const signedIn = await signIn({ baseUrl: api.publicUrl, fetch }, tenant);
  const headers = { authorization: `Bearer ${signedIn.token}` };
  await stopDatabase(service);
  try {
    await eventually(
      async () =>
        (await api.requestOnce("/v1/webhooks/endpoints", { headers })).body["code"] === "REVOCATION_STALE",
      "the api to know nothing of revocations",
    );
    answer = signedIn.call("GET", "/v1/webhooks/endpoints");
    await eventually(() => said.length > 0, "the wait to be announced");
  } finally {
    await startDatabase(service);
  }
  expect(await answer).toEqual({ data: [], next_cursor: null });
  expect(said).toHaveLength(1);
});

/** An api process on a machine with a wrong clock issues no tokens. */
import { afterEach, expect, test, vi } from "vitest";
import { eventually } from "#test/support/eventually.ts";
import { useTestApi } from "#test/support/api.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { type SecondApi, startSecondApi } from "#test/support/second-api.ts";
import { useStarted } from "#test/support/started.ts";
import { createTenant } from "#test/support/tenant.ts";

const api = useTestApi();
const second = useStarted(
  "an api process by the database's clock",
  async (): Promise<SecondApi> => await startSecondApi(api),
);
const systemNow = Date.now.bind(Date);

afterEach(() => vi.restoreAllMocks());

test.each([600_000, -600_000])(
  "with a clock that is %i ms ahead, token requests get a 503 until the clock is right",
  async (offsetMs) => {
    const { clientId, clientSecret } = await createTenant(api);
    const ask = async () =>
      await second.current.request("/v1/auth/token", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          grant_type: "client_credentials",
          client_id: clientId,
          client_secret: clientSecret,
        }),
      });
    expect((await ask()).status).toBe(200);

    vi.spyOn(Date, "now").mockImplementation(() => systemNow() + offsetMs);
    const refused = await ask();
    expect(refused.status).toBe(503);
    expect(refused.body).toMatchObject({ error: "temporarily_unavailable", code: "CLOCK_SKEWED" });
    expect(refused.headers.get("retry-after")).toBe("30");
    const ready = await second.current.request("/readyz");
    expect(ready).toMatchObject({ status: 503 });
    expect(JSON.stringify(ready.body)).toContain("clock");
    await eventually(
      () => second.current.log.some((line) => line.includes("the machine's clock is wrong")),
      "the log entry",
    );

    vi.restoreAllMocks();
    await withoutPause(async () => {
      const token = await ask();
      expect(token.status).toBe(200);
      const [, claims = ""] = (token.body as { access_token: string }).access_token.split(".");
      const { iat } = JSON.parse(Buffer.from(claims, "base64url").toString()) as { iat: number };
      expect(Math.abs(iat * 1_000 - Date.now())).toBeLessThan(5_000);
    });
  },
);

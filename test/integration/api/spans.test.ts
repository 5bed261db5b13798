/** A filter's time range that ends before it begins is rejected instead of finding nothing. */
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Tenant,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const EARLY = "2025-11-20T00:00:00Z";
const LATE = "2025-11-21T00:00:00Z";
/** The same instant as EARLY. */
const EARLY_WITH_OFFSET = "2025-11-20T01:00:00%2B01:00";
let tenant: Tenant;
let endpoint: string;

beforeAll(async () => {
  tenant = await createTenant(api, [...WEBHOOK_SCOPES, "compliance:read"]);
  endpoint = (await createEndpoint(api, tenant)).id;
});

describe("the filters of a list", () => {
  test.each([
    "/v1/events",
    "/v1/webhooks/deliveries",
    "/v1/webhooks/dlq",
    "/v1/webhooks/dlq/export",
    "/v1/compliance/entries",
  ])("of %s reject a from later than to", async (list) => {
    const refused = await tenant.get(`${list}?from=${LATE}&to=${EARLY}`);
    expectRefusal(refused, 400, "INVALID_REQUEST");
    expect(refused.body["errors"]).toMatchObject([{ pointer: "/from", code: "order" }]);
    expect(await tenant.get(`${list}?from=${EARLY}&to=${LATE}`)).toMatchObject({ status: 200 });
    expect(await tenant.get(`${list}?from=${EARLY}&to=${EARLY_WITH_OFFSET}`)).toMatchObject({ status: 200 });
  });
});

describe("a replay", () => {
  test.each([false, true])(
    "of a filter whose from is later than to is rejected (dry run: %s)",
    async (dry) => {
      const filter = { from: LATE, to: EARLY };
      const refused = await tenant.post("/v1/webhooks/dlq/replay", { filter, dry_run: dry });
      expectRefusal(refused, 422, "VALIDATION_FAILED");
      expect(refused.body["errors"]).toMatchObject([{ pointer: "/filter/from", code: "order" }]);
    },
  );

  test.each([false, true])(
    "of missed events whose since is later than until is rejected (dry run: %s)",
    async (dry) => {
      const path = `/v1/webhooks/endpoints/${endpoint}/replay-missing`;
      const refused = await tenant.post(path, { since: LATE, until: EARLY, dry_run: dry });
      expectRefusal(refused, 422, "VALIDATION_FAILED");
      expect(refused.body["errors"]).toMatchObject([{ pointer: "/since", code: "order" }]);
      expect(await tenant.post(path, { since: EARLY, until: LATE, dry_run: true })).toMatchObject({
        status: 200,
      });
    },
  );
});

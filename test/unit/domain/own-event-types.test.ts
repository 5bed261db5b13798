import { expect, test } from "vitest";
import { isReservedType, OWN_EVENT_TYPES } from "#domain/own-event-types.ts";

test.each([...OWN_EVENT_TYPES, "ping", "signet.grade", "endpoint.renamed", "signet.anything"])(
  "tenants cannot publish %s, which receivers trust to come from the service",
  (type) => {
    expect(isReservedType(type)).toBe(true);
  },
);

test.each([
  "inference.completed",
  "pipeline.failed",
  "ping.sent",
  "endpoints.updated",
  "my.endpoint.disabled",
])("tenants can publish %s", (type) => {
  expect(isReservedType(type)).toBe(false);
});

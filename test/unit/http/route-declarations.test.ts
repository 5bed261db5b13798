/** A process does not start with a route that lacks its callers or reads more than it declares. */
import { randomBytes } from "node:crypto";
import { Type } from "typebox";
import { describe, expect, test } from "vitest";
import { createServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import { createLogger } from "#observability/logger.ts";
import { Closed, IdParams } from "#http/common.ts";

const handler = () => ({});
const guard = async () => undefined;

function tenantServer(): SignetServer {
  return createServer({
    baseUrl: "http://service.example",
    guards: { scopes: () => guard },
    clock: { now: () => 0 },
    randomBytes,
    log: createLogger({ level: "silent" }),
  });
}

test("a route without a declaration prevents startup", () => {
  expect(() => tenantServer().get("/v1/things", handler)).toThrow(/GET \/v1\/things must declare one of/);
});

test("a route with two declarations prevents startup", () => {
  const config = { public: true, scopes: [] } as const;
  expect(() => tenantServer().get("/v1/things", { config }, handler)).toThrow(/must declare one of/);
});

test("an operator's route on the public server prevents startup", () => {
  const config = { operator: "read" } as const;
  expect(() => tenantServer().get("/admin/v1/things", { config }, handler)).toThrow(/has no such guard/);
});

describe("an operator's route", () => {
  function operatorServer(): SignetServer {
    return createServer({
      baseUrl: "http://service.example",
      guards: { operator: () => guard },
      clock: { now: () => 0 },
      randomBytes,
      log: createLogger({ level: "silent" }),
    });
  }

  test.each([true, "", "admin", "provision security"])("prevents startup with the role %j", (operator) => {
    const config = { operator: operator as "read" };
    expect(() => operatorServer().get("/admin/v1/things", { config }, handler)).toThrow(
      /config.operator must be one of read, provision, security/,
    );
  });

  test.each(["POST", "PUT", "PATCH", "DELETE"])("prevents startup when readers may %s", (method) => {
    expect(() =>
      operatorServer().route({ method, url: "/admin/v1/things", config: { operator: "read" }, handler }),
    ).toThrow(/only a GET may have the role read/);
  });

  test("prevents startup when it changes something without an audit entry, or reads with the entry of a change", () => {
    const change = { operator: "provision" } as const;
    expect(() => operatorServer().post("/admin/v1/things", { config: change }, handler)).toThrow(
      /config.audits is required/,
    );
    const read = { operator: "read", audits: "tenant.created" } as const;
    expect(() => operatorServer().get("/admin/v1/things", { config: read }, handler)).toThrow(
      /config.audits is required/,
    );
  });

  test("is accepted with a suitable role", async () => {
    const server = operatorServer();
    server.get("/admin/v1/things", { config: { operator: "read" } }, handler);
    server.get("/admin/v1/looks", { config: { operator: "read", audits: "tenant.read" } }, handler);
    server.post("/admin/v1/things", { config: { operator: "security", audits: "tenant.created" } }, handler);
    await server.ready();
    await server.close();
  });
});

test("a route inside a plugin follows the same rules", async () => {
  const server = tenantServer();
  server.register(async (child) => {
    child.get("/v1/things", handler);
  });
  await expect(async () => await server.ready()).rejects.toThrow(/must declare one of/);
});

test("a path parameter without a schema prevents startup", () => {
  const config = { public: true } as const;
  expect(() => tenantServer().get("/v1/things/:id", { config }, handler)).toThrow(
    /schema for its path parameters/,
  );
});

test.each(["body", "querystring", "params"] as const)("an open %s schema prevents startup", (part) => {
  const schema = { params: IdParams("event"), [part]: Type.Object({ id: Type.String() }) };
  expect(() => tenantServer().post("/v1/things/:id", { config: { public: true }, schema }, handler)).toThrow(
    new RegExp(`the ${part} schema must have additionalProperties: false`),
  );
});

test("a fully declared route is accepted", async () => {
  const server = tenantServer();
  const schema = { params: IdParams("event"), body: Closed({ a: Type.String() }), querystring: Closed({}) };
  server.post("/v1/things/:id", { config: { scopes: ["things:write"] }, schema }, handler);
  await server.ready();
  await server.close();
});

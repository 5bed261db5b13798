/** What keeps a process from starting: a route that does not say who may call it, or reads more than it declares. */
import { randomBytes } from "node:crypto";
import { Type } from "typebox";
import { describe, expect, test } from "vitest";
import { createServer } from "../../../src/http/server.ts";
import type { SignetServer } from "../../../src/http/types.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { Closed, IdParams } from "../../../src/http/common.ts";

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

test("a route without a declaration does not boot", () => {
  expect(() => tenantServer().get("/v1/things", handler)).toThrow(/GET \/v1\/things must declare one of/);
});

test("a route with two declarations does not boot", () => {
  const config = { public: true, scopes: [] } as const;
  expect(() => tenantServer().get("/v1/things", { config }, handler)).toThrow(/must declare one of/);
});

test("an operator's route does not boot on the public server", () => {
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

  test.each([true, "", "admin", "provision security"])("does not boot with the role %j", (operator) => {
    const config = { operator: operator as "read" };
    expect(() => operatorServer().get("/admin/v1/things", { config }, handler)).toThrow(
      /config.operator must be one of read, provision, security/,
    );
  });

  test.each(["POST", "PUT", "PATCH", "DELETE"])("does not boot when a %s is left to readers", (method) => {
    expect(() =>
      operatorServer().route({ method, url: "/admin/v1/things", config: { operator: "read" }, handler }),
    ).toThrow(/only a GET may have the role read/);
  });

  test("does not boot when it changes something and leaves no entry, or the other way round", () => {
    const change = { operator: "provision" } as const;
    expect(() => operatorServer().post("/admin/v1/things", { config: change }, handler)).toThrow(
      /config.audits is required/,
    );
    const read = { operator: "read", audits: "tenant.created" } as const;
    expect(() => operatorServer().get("/admin/v1/things", { config: read }, handler)).toThrow(
      /config.audits is required/,
    );
  });

  test("boots with a role that fits", async () => {
    const server = operatorServer();
    server.get("/admin/v1/things", { config: { operator: "read" } }, handler);
    server.post("/admin/v1/things", { config: { operator: "security", audits: "tenant.created" } }, handler);
    await server.ready();
    await server.close();
  });
});

test("a route inside a plugin is held to the same", async () => {
  const server = tenantServer();
  server.register(async (child) => {
    child.get("/v1/things", handler);
  });
  await expect(async () => await server.ready()).rejects.toThrow(/must declare one of/);
});

test("a path parameter without a schema does not boot", () => {
  const config = { public: true } as const;
  expect(() => tenantServer().get("/v1/things/:id", { config }, handler)).toThrow(
    /schema for its path parameters/,
  );
});

test.each(["body", "querystring", "params"] as const)("an open %s schema does not boot", (part) => {
  const schema = { params: IdParams("event"), [part]: Type.Object({ id: Type.String() }) };
  expect(() => tenantServer().post("/v1/things/:id", { config: { public: true }, schema }, handler)).toThrow(
    new RegExp(`the ${part} schema must have additionalProperties: false`),
  );
});

test("a route that declares everything boots", async () => {
  const server = tenantServer();
  const schema = { params: IdParams("event"), body: Closed({ a: Type.String() }), querystring: Closed({}) };
  server.post("/v1/things/:id", { config: { scopes: ["things:write"] }, schema }, handler);
  await server.ready();
  await server.close();
});

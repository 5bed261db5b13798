/** A cursor belongs to one list: path, filters and tenant. */
import { randomBytes } from "node:crypto";
import { Type } from "typebox";
import { beforeAll, expect, test } from "vitest";
import { readPage, toPage } from "#api/pagination.ts";
import { Closed, IdParams, PageQuery } from "#http/common.ts";
import { createServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import type { Identity } from "#domain/identity.ts";

const IDS = Array.from({ length: 7 }, (_, index) => newId("event", 1_000 + index, randomBytes)).toReversed();
const LIST = {
  config: { scopes: [] },
  schema: { querystring: Closed({ ...PageQuery, type: Type.Optional(Type.String()) }) },
};

let server: SignetServer;

interface List {
  readonly data: readonly { id: string }[];
  readonly next_cursor: string | null;
}

beforeAll(async () => {
  server = createServer({
    baseUrl: "http://service.example",
    // The tenant comes from a header: this test is about cursors.
    guards: {
      scopes: () => async (request) => {
        request.identity = { tenantId: String(request.headers["x-tenant"]) } as Identity;
      },
    },
    clock: { now: () => 0 },
    randomBytes,
    log: createLogger({ level: "silent" }),
  });
  const read = (before: string | null, limit: number) =>
    IDS.filter((id) => before === null || id < before)
      .slice(0, limit + 1)
      .map((id) => ({ id }));
  server.get("/things", LIST, (request) => {
    const page = readPage(request);
    return toPage(read(page.before, page.limit), page);
  });
  server.get("/others", LIST, (request) => readPage(request));
  server.get("/of/:id", { ...LIST, schema: { ...LIST.schema, params: IdParams("event") } }, (request) =>
    toPage(read(null, 1), readPage(request)),
  );
  await server.ready();
});

const get = async (url: string, tenant = "a") =>
  await server.inject({ url, headers: { "x-tenant": tenant } });

test("following the cursors returns every item once, newest first", async () => {
  const seen: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: List = (await get(`/things?limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`)).json();
    expect(page.data.length).toBeLessThanOrEqual(3);
    seen.push(...page.data.map(({ id }) => id));
    cursor = page.next_cursor;
  }
  expect(seen).toEqual(IDS);
});

test("the last page has no cursor", async () => {
  expect((await get("/things?limit=7")).json<List>().next_cursor).toBeNull();
});

test("a cursor of another list, filter, path or tenant is rejected", async () => {
  const { next_cursor: cursor } = (await get("/things?limit=3&type=a")).json<List>();
  expect((await get(`/things?limit=2&type=a&cursor=${cursor}`)).statusCode).toBe(200);
  for (const answer of [
    await get(`/things?cursor=${cursor}`),
    await get(`/things?type=b&cursor=${cursor}`),
    await get(`/others?type=a&cursor=${cursor}`),
    await get(`/things?type=a&cursor=${cursor}`, "b"),
  ]) {
    expect(answer.statusCode).toBe(400);
    expect(answer.json()).toMatchObject({ code: "INVALID_REQUEST" });
  }
  const { next_cursor: below } = (await get(`/of/${IDS[0]}?limit=1`)).json<List>();
  expect((await get(`/of/${IDS[0]}?cursor=${below}`)).statusCode).toBe(200);
  expect((await get(`/of/${IDS[1]}?cursor=${below}`)).statusCode).toBe(400);
});

test.each(["x", "%00", "..", Buffer.from("aaaaaaaaaaaaevt_1").toString("base64url"), "a".repeat(300)])(
  "cursor %s is rejected",
  async (cursor) => {
    expect((await get(`/things?cursor=${cursor}`)).statusCode).toBe(400);
  },
);

test.each(["0", "101", "-1", "1.5", "x", "", "1e1", "Infinity"])("limit %j is rejected", async (limit) => {
  expect((await get(`/things?limit=${limit}`)).statusCode).toBe(400);
});

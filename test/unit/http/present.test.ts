import { Type } from "typebox";
import { expect, expectTypeOf, test } from "vitest";
import { Nullable, OneOf, Timestamp } from "#http/common.ts";
import { jsonPresenter, presenter, type RowOf } from "#http/present.ts";

const Shown = Type.Object({
  id: Type.String(),
  state: OneOf(["ON", "OFF"]),
  "a-b": Type.Integer(),
  note: Type.Optional(Type.String()),
  created_at: Timestamp,
  ended_at: Nullable(Timestamp),
});

const row = { id: "x", state: "ON", "a-b": 1, created_at: new Date(0), ended_at: null, secret: "s" } as const;

test("a wire form has the schema's members in its order, instants as RFC 3339, and nothing else of the row", () => {
  const wire = presenter(Shown)(row);
  expect(JSON.stringify(wire)).toBe(
    '{"id":"x","state":"ON","a-b":1,"created_at":"1970-01-01T00:00:00.000Z","ended_at":null}',
  );
  expect(presenter(Shown)({ ...row, note: "n", ended_at: new Date(1) })).toMatchObject({
    note: "n",
    ended_at: "1970-01-01T00:00:00.001Z",
  });
});

test("a row that lacks a member, or holds another type, does not compile", () => {
  type Shows = RowOf<typeof Shown.properties>;
  expectTypeOf(row).toExtend<Shows>();
  expectTypeOf<Omit<typeof row, "ended_at">>().not.toExtend<Shows>();
  expectTypeOf<Omit<typeof row, "state"> & { state: string }>().not.toExtend<Shows>();
  expectTypeOf<Omit<typeof row, "a-b"> & { "a-b": Date }>().not.toExtend<Shows>();
});

test("a member that is JSON text stays as it is and is the last", () => {
  const toText = jsonPresenter(
    Type.Object({ data: Type.Unknown(), id: Type.String(), at: Timestamp }),
    "data",
  );
  expect(toText({ id: "x", at: new Date(0) }, { data: '{"n":1.0}' })).toBe(
    '{"id":"x","at":"1970-01-01T00:00:00.000Z","data":{"n":1.0}}',
  );
});

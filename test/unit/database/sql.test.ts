import { expect, test } from "vitest";
import { raw, sql } from "#database/sql.ts";

test("each value becomes a parameter, in order, and may be followed by a type", () => {
  const [day, id] = ["2026-01-02", "evt_1"];
  expect(sql`SELECT x FROM t WHERE day = ${day}::date AND (id = ${id} OR parent = ${id})`).toMatchObject({
    text: "SELECT x FROM t WHERE day = $1::date AND (id = $2 OR parent = $3)",
    values: [day, id, id],
  });
  expect(sql`SELECT 1`).toMatchObject({ text: "SELECT 1", values: [] });
  expect(sql`${null}`).toMatchObject({ text: "$1", values: [null] });
});

test("raw text becomes part of the statement, and gets no number", () => {
  const columns = raw("id, name");
  expect(
    sql`SELECT ${columns} FROM t WHERE a = ${[1, 2]} AND ${raw("b IS NULL")} AND c = ${true}`,
  ).toMatchObject({
    text: "SELECT id, name FROM t WHERE a = $1 AND b IS NULL AND c = $2",
    values: [[1, 2], true],
  });
});

test("input cannot become part of the statement", () => {
  const hostile = "'; DROP TABLE t; --";
  expect(sql`SELECT ${hostile}`).toMatchObject({ text: "SELECT $1", values: [hostile] });
});

test("a template always returns the same text, whatever its values and fragments", () => {
  const find = (table: string, id: number): string => sql`SELECT FROM ${raw(table)} WHERE id = ${id}`.text;
  const named = (name: string): string => sql`SELECT FROM t WHERE name = ${name}`.text;
  expect([find("a", 1), find("b", 2), find("a", 3)]).toEqual([
    "SELECT FROM a WHERE id = $1",
    "SELECT FROM b WHERE id = $1",
    "SELECT FROM a WHERE id = $1",
  ]);
  expect([named("x"), named("y")]).toEqual(Array(2).fill("SELECT FROM t WHERE name = $1"));
});

test("a missing value does not compile", () => {
  const row: { readonly name?: string } = {};
  // @ts-expect-error undefined would silently become NULL.
  expect(sql`SELECT ${row.name}`.values).toEqual([undefined]);
});

test("statements can be nested, and their parameters are renumbered", () => {
  const mine = sql`tenant = ${"a"} AND state = ${"b"}`;
  const query = sql`SELECT ${1} FROM t WHERE ${mine} LIMIT ${2}`;
  expect(query).toMatchObject({
    text: "SELECT $1 FROM t WHERE tenant = $2 AND state = $3 LIMIT $4",
    values: [1, "a", "b", 2],
  });
  expect(sql`(${query}) UNION (${query})`).toMatchObject({
    text: `(${query.text}) UNION (SELECT $5 FROM t WHERE tenant = $6 AND state = $7 LIMIT $8)`,
    values: [...query.values, ...query.values],
  });
});

test("a spread statement holds exactly what pg reads", () => {
  expect({ name: "find", ...sql`SELECT ${1}` }).toEqual({ name: "find", text: "SELECT $1", values: [1] });
});

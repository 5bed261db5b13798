import { DatabaseError } from "pg";
import { describe, expect, it } from "vitest";
import { DatabaseBusyError, isDatabaseAway } from "#database/errors.ts";

function refused(code: string, severity = "ERROR"): DatabaseError {
  return Object.assign(new DatabaseError("refused", 7, "error"), { code, severity });
}

function failed(code: string): Error {
  return Object.assign(new Error("failed"), { code });
}

describe("a database error counts as unavailability", () => {
  it.each([
    ["that is shut down", refused("57P01")],
    ["that crashed", refused("57P02")],
    ["that is starting", refused("57P03")],
    ["that has no connections left", refused("53300")],
    ["that accepts no connections", refused("55000")],
    ["whose disk is full", refused("53100")],
    ["that accepts no connection, because its disk is full", refused("XX000", "FATAL")],
    ["that has become a standby", refused("25006")],
    ["that cancelled a statement after its timeout", refused("57014")],
    ["that ended a deadlock", refused("40P01")],
    ["that could not serialize a transaction", refused("40001")],
    ["whose lock was not free in time", refused("55P03")],
    ["with too many waiting requests", new DatabaseBusyError("1000 wait")],
    ["that does not finish a handshake", new Error("timeout expired")],
    ["that refuses the connection", failed("ECONNREFUSED")],
    ["that hangs up", failed("ECONNRESET")],
    [
      "that refuses at each of several addresses",
      new AggregateError([failed("ECONNREFUSED"), failed("ECONNREFUSED")]),
    ],
    ["that disconnected in the middle", new Error("Connection terminated unexpectedly")],
    ["that does not answer", new Error("timeout exceeded when trying to connect")],
  ])("is one %s", (_, error) => {
    expect(isDatabaseAway(error)).toBe(true);
  });

  it.each([
    ["that refuses a value", refused("22P02")],
    ["that refuses a duplicate", refused("23505")],
    ["that has no such table", refused("42P01")],
    ["with a fault of its own", refused("XX000")],
    ["for another error", new TypeError("undefined is not a function")],
    ["whose file is missing", failed("ENOENT")],
    ["for no error", undefined],
  ])("is not one %s", (_, error) => {
    expect(isDatabaseAway(error)).toBe(false);
  });
});

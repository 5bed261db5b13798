import { DatabaseError } from "pg";
import { describe, expect, it } from "vitest";
import { DatabaseBusyError, isDatabaseAway } from "../../../src/database/errors.ts";

function refused(code: string): DatabaseError {
  const error = new DatabaseError("refused", 7, "error");
  error.code = code;
  return error;
}

function failed(code: string): Error {
  return Object.assign(new Error("failed"), { code });
}

describe("a database that is away", () => {
  it.each([
    ["that is shut down", refused("57P01")],
    ["that has crashed", refused("57P02")],
    ["that starts", refused("57P03")],
    ["that has no connection left", refused("53300")],
    ["that takes no connections", refused("55000")],
    ["whose disk is full", refused("53100")],
    ["that is a standby now", refused("25006")],
    ["that cancelled a statement over its time", refused("57014")],
    ["that too many wait for", new DatabaseBusyError("1000 wait")],
    ["that does not finish a handshake", new Error("timeout expired")],
    ["nobody listens for", failed("ECONNREFUSED")],
    ["that hangs up", failed("ECONNRESET")],
    [
      "that is none of several addresses",
      new AggregateError([failed("ECONNREFUSED"), failed("ECONNREFUSED")]),
    ],
    ["that ended in the middle", new Error("Connection terminated unexpectedly")],
    ["that does not answer", new Error("timeout exceeded when trying to connect")],
  ])("is one %s", (_, error) => {
    expect(isDatabaseAway(error)).toBe(true);
  });

  it.each([
    ["that refuses a value", refused("22P02")],
    ["that refuses a duplicate", refused("23505")],
    ["that has no such table", refused("42P01")],
    ["that is not the matter", new TypeError("undefined is not a function")],
    ["whose file is missing", failed("ENOENT")],
    ["that nobody speaks of", undefined],
  ])("is not one %s", (_, error) => {
    expect(isDatabaseAway(error)).toBe(false);
  });
});

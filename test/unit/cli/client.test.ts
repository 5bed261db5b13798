/** Output and input of a tenant's commands, without a service. */
import { expect, test } from "vitest";
import { checkOutcomes, progressLine } from "#cli/client/replay.ts";
import { colourOfState } from "#cli/colours.ts";
import { DELIVERY_STATES } from "#domain/delivery.ts";
import { ENDPOINT_STATES } from "#domain/endpoint-state.ts";
import { ITEM_STATES } from "#api/schemas/replays.ts";
import { exitCodeOfError } from "#cli/exit-codes.ts";
import { tlsOf } from "#cli/connection.ts";
import { printable } from "#cli/output.ts";
import type { ReplayJob } from "#lib/client/api-types.ts";
import { ConfigError, loadClientSettings } from "#config/config.ts";

const JOB: ReplayJob = {
  id: "rpl_1",
  kind: "dead_letters",
  endpoint_id: null,
  states: null,
  state: "RUNNING",
  total: 200,
  listing: false,
  done: 90,
  failed: 4,
  skipped: 6,
  rate_per_second: 500,
  created_at: "2026-11-22T00:00:00.000Z",
  finished_at: null,
};

test("a job's progress bar shows its progress, rounded down", () => {
  expect(progressLine(JOB)).toBe(
    `[${"#".repeat(15)}${"-".repeat(15)}] 50 %  90 of 200 replayed, 6 skipped, 4 failed`,
  );
  expect(progressLine({ ...JOB, state: "PAUSED" })).toMatch(/ {2}PAUSED$/);
  expect(progressLine({ ...JOB, total: 0, done: 0, failed: 0, skipped: 0 })).toContain("] 100 %");
  expect(progressLine({ ...JOB, done: 199, failed: 0, skipped: 0 })).toContain("] 99 %");
});

test("a replay fails the command if a delivery failed again, or nothing was delivered", () => {
  const none = { delivered: 0, retrying: 0, failed: 0, cancelled: 0, waiting: 0 };
  const check = (outcomes: object) => (): void => checkOutcomes("rpl_1", { ...none, ...outcomes });
  expect(check({ delivered: 2 })).not.toThrow();
  expect(check({ delivered: 1, retrying: 1 })).not.toThrow();
  expect(check({ delivered: 1, failed: 1 })).toThrow(
    "1 failed again: signet replay items rpl_1 --outcome FAILED",
  );
  expect(check({ retrying: 120 })).toThrow("Nothing was delivered yet, 120 are retried");
  expect(check({ cancelled: 1 })).toThrow("Nothing was delivered");
});

test("that a job has ended has no colour of success", () => {
  expect(["COMPLETED", "DONE", "unknown"].map(colourOfState)).not.toContain("green");
  expect(["DELIVERED", "healthy"].map(colourOfState)).toEqual(["green", "green"]);
  // Each state that the portal shows as a badge has the colour of that badge.
  expect(DELIVERY_STATES.map(colourOfState)).toEqual(["yellow", "yellow", "green", "red", "dim", "dim"]);
  expect(ENDPOINT_STATES.map(colourOfState)).toEqual(["yellow", "green", "red"]);
  expect(ITEM_STATES.map(colourOfState)).toEqual(["yellow", "dim", "dim", "red", "dim"]);
});

test("control characters are escaped, everything else stays", () => {
  expect(printable("über\u001b[31m\u009b1m\n\u007f")).toBe("über\\u001b[31m\\u009b1m\\u000a\\u007f");
});

test("invalid client settings are rejected", () => {
  expect(() => loadClientSettings({ SIGNET_CLIENT_CERT_FILE: "/c", SIGNET_PROFILE: "../x" })).toThrow(
    ConfigError,
  );
  expect(loadClientSettings({ SIGNET_ENV: "production" })).toMatchObject({
    production: true,
    profile: "default",
  });
  expect(loadClientSettings({})).toMatchObject({ production: false });
});

test("an unexpected error has no exit code of its own", () => {
  expect(exitCodeOfError(new Error("bug"))).toBeUndefined();
  expect(exitCodeOfError(new TypeError("bug"))).toBeUndefined();
});

test("a CA file works without a client certificate, and not for an http address", () => {
  expect(tlsOf({ url: "https://api.example", ca: "/ca" })).toHaveProperty("tls");
  expect(tlsOf({ url: "http://127.0.0.1:8080", ca: "/ca" })).toEqual({});
  expect(tlsOf({ url: "https://api.example" })).toEqual({});
  expect(() => tlsOf({ url: "https://api.example", cert: "/cert" })).toThrow("must be given together");
});

/** Times that people type, and times in tables. */
import { expect, test } from "vitest";
import { parseTime, shownTime } from "#cli/times.ts";

/** November 25, 2026, 13:30:15 local time. */
const NOW = new Date(2026, 10, 25, 13, 30, 15).getTime();

function local(...parts: readonly [number, number, number, number?, number?, number?]): string {
  const [year, month, day, ...time] = parts;
  return new Date(year, month - 1, day, ...time).toISOString();
}

test.each([
  ["90s", 90_000],
  ["45m", 2_700_000],
  ["2h", 7_200_000],
  ["1d12h", 129_600_000],
  ["2w", 1_209_600_000],
])("%s is that long ago", (text, agoMs) => {
  expect(parseTime(text, NOW)).toBe(new Date(NOW - agoMs).toISOString());
});

test.each([
  ["02:00", local(2026, 11, 25, 2)],
  ["13:30:15", local(2026, 11, 25, 13, 30, 15)],
  ["13:31", local(2026, 11, 24, 13, 31)],
  ["23:59:59", local(2026, 11, 24, 23, 59, 59)],
  ["2026-11-22", local(2026, 11, 22)],
  ["2026-11-22 02:00", local(2026, 11, 22, 2)],
  ["2026-11-22T02:00:05", local(2026, 11, 22, 2, 0, 5)],
])("%s is local, and the newest if it has no date", (text, instant) => {
  expect(parseTime(text, NOW)).toBe(instant);
});

test("RFC 3339 stays as it is", () => {
  for (const text of ["2026-11-22T02:00:00Z", "2026-11-22T02:00:00.123456+02:00"]) {
    expect(parseTime(text, NOW)).toBe(text);
  }
});

test.each([
  "",
  "h",
  "2",
  "-2h",
  "2y",
  "24:00",
  "12:60",
  "2:00",
  "2026-02-30",
  "2026-13-01",
  "22.11.2026",
  "soon",
])("%j is not a time", (text) => {
  expect(parseTime(text, NOW)).toBeUndefined();
});

test("tables show the API's times in local time, to the second", () => {
  expect(shownTime(new Date(2026, 0, 2, 3, 4, 5, 678).toISOString())).toBe("2026-01-02 03:04:05");
  expect(shownTime("pipeline.failed")).toBeUndefined();
});

import { expect, test } from "vitest";
import { cellOfLogin } from "#config/cell-settings.ts";
import { PRODUCTION, problemsOf } from "#test/support/config-problems.ts";

test("cells name themselves, the home cell and its database", () => {
  const cells = "eu=https://api.example.com,us=https://us.example.com";
  const home = { ...PRODUCTION, SIGNET_CELLS: cells, SIGNET_CELL: "eu" };
  const other = {
    ...home,
    SIGNET_CELL: "us",
    SIGNET_HOME_DATABASE_URL: "postgres://cell@home/signet?sslmode=verify-full",
  };
  expect(problemsOf(home)).toEqual([]);
  expect(problemsOf(other)).toEqual([]);
  const { SIGNET_HOME_DATABASE_URL: _url, ...withoutHome } = other;
  expect(problemsOf(withoutHome)).toEqual([
    "SIGNET_HOME_DATABASE_URL must be set in a cell that is not the home cell",
  ]);
  const unknown = "SIGNET_CELL must be one of the regions in SIGNET_CELLS; set both or neither";
  expect(problemsOf({ ...home, SIGNET_CELL: "ap" })).toEqual([unknown]);
  expect(problemsOf({ ...PRODUCTION, SIGNET_CELL: "eu" })).toEqual([unknown]);
  expect(problemsOf({ ...home, SIGNET_PUBLIC_URL: "https://us.example.com" })).toEqual([
    "SIGNET_PUBLIC_URL must be the URL of the home cell, the first in SIGNET_CELLS",
  ]);
  expect(problemsOf({ ...home, SIGNET_CELLS: `${cells},ap=http://ap.example.com` })).toEqual([
    "SIGNET_CELLS must have https URLs in production",
  ]);
  for (const wrong of [
    "eu=https://a.example.com",
    "eu=https://a,eu=https://b",
    "eu=https://a,us=https://a",
    "eu,us",
    "Europe=https://a,us=https://b",
  ]) {
    expect(problemsOf({ ...home, SIGNET_CELLS: wrong }).join()).toMatch(/^SIGNET_CELLS must/);
  }
});

test("the login of a cell is that of the only other cell, or of the one that is named", () => {
  const SIGNET_CELLS = "eu=https://api.example.com,us=https://us.example.com,ap=https://ap.example.com";
  const home = { ...PRODUCTION, SIGNET_CELLS, SIGNET_CELL: "eu" };
  expect(problemsOf({ ...home, SIGNET_HOME_DATABASE_CELL: "ap" })).toEqual([]);
  for (const wrong of ["eu", "mx"]) {
    expect(problemsOf({ ...home, SIGNET_HOME_DATABASE_CELL: wrong })).toEqual([
      "SIGNET_HOME_DATABASE_CELL must be one of the regions in SIGNET_CELLS after the first",
    ]);
  }
  const cells = ["eu", "us", "ap"].map((region) => ({ region, url: `https://${region}.example.com` }));
  expect(cellOfLogin({ cells: cells.slice(0, 2) })).toBe("us");
  expect(cellOfLogin({ cells })).toBeUndefined();
  expect(cellOfLogin({ cells, homeDatabaseCell: "ap" })).toBe("ap");
  expect(cellOfLogin({})).toBeUndefined();
});

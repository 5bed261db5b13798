import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sharedServers, shareServers } from "#processes/serve/shared-servers.ts";

const SERVERS = {
  databaseUrl: "postgres://signet:secret@127.0.0.1:1/signet",
  temporalAddress: "127.0.0.1:2",
};
let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "signet-shared-"));
});

afterEach(async () => {
  await rm(home, { recursive: true });
});

test("another process finds the servers until they stop, in development only", async () => {
  expect(sharedServers({ home, development: true })).toEqual({});
  const withdraw = await shareServers(home, SERVERS);
  expect(sharedServers({ home, development: true })).toEqual(SERVERS);
  expect(sharedServers({ home, development: false })).toEqual({});
  await withdraw();
  expect(sharedServers({ home, development: true })).toEqual({});
});

test("only the owner may read the file, also if a killed process left one", async () => {
  await shareServers(home, SERVERS);
  await shareServers(home, { ...SERVERS, temporalAddress: "127.0.0.1:3" });
  expect(sharedServers({ home, development: true })).toMatchObject({ temporalAddress: "127.0.0.1:3" });
  expect((await stat(join(home, "servers.json"))).mode & 0o777).toBe(0o600);
});

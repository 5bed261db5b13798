/** Names that need long to resolve: real queries to a scripted name server. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createHostResolver } from "#webhooks/sending/http-resolver.ts";
import { createOwnAddresses } from "#webhooks/sending/own-listeners.ts";
import { type DnsServer, startDnsServer } from "#test/support/dns-server.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const ADDRESS = "192.0.2.1";
const RECORDS = [{ value: ADDRESS }];
let dns: DnsServer;

beforeAll(async () => {
  dns = await startDnsServer();
});
afterAll(async () => await dns.close());

test("a slow name resolves, also after two hundred fast ones", async () => {
  const resolve = createHostResolver({ timers: machineTimers, servers: [dns.address] });
  dns.answer(({ name, type }) => {
    if (type !== "A") {
      return [];
    }
    return name.startsWith("slow") ? { afterMs: 600, records: RECORDS } : RECORDS;
  });
  for (let count = 0; count < 200; count += 1) {
    expect(await resolve(`fast-${count}.example.com`)).toEqual([ADDRESS]);
  }
  const slow = Array.from({ length: 4 }, async (_, index) => await resolve(`slow-${index}.example.com`));
  expect(await Promise.all(slow)).toEqual(slow.map(() => [ADDRESS]));
});

test("a silent first name server is passed over", async () => {
  const silent = await startDnsServer();
  silent.answer(() => "drop");
  dns.answer(({ type }) => (type === "A" ? RECORDS : []));
  const resolve = createHostResolver({ timers: machineTimers, servers: [silent.address, dns.address] });
  expect(await resolve("some.example.com")).toEqual([ADDRESS]);
  await silent.close();
});

test("one family's addresses do not wait for the other family's silence", async () => {
  dns.answer(({ type }) => (type === "A" ? RECORDS : "drop"));
  expect(
    await createHostResolver({ timers: machineTimers, servers: [dns.address] })("some.example.com"),
  ).toEqual([ADDRESS]);
  dns.answer(({ type }) => (type === "A" ? "drop" : [{ value: "2001:db8::1" }]));
  expect(
    await createHostResolver({ timers: machineTimers, servers: [dns.address] })("some.example.com"),
  ).toEqual(["2001:db8::1"]);
});

test("no such name is an empty list, and no answer is an error", async () => {
  const resolve = createHostResolver({ timers: machineTimers, servers: [dns.address] });
  dns.answer(() => "NXDOMAIN");
  expect(await resolve("some.example.com")).toEqual([]);
  dns.answer(({ type }) => (type === "A" ? "SERVFAIL" : []));
  await expect(resolve("some.example.com")).rejects.toThrow(/ESERVFAIL/);
  dns.answer(() => "drop");
  await expect(resolve("some.example.com")).rejects.toThrow(/no name server answered|ETIMEOUT/);
});

test("while our own name is unknown, no address is admitted; then its own is recognized", async () => {
  const resolve = createHostResolver({ timers: machineTimers, servers: [dns.address] });
  const isOwn = createOwnAddresses([{ host: "api.example.com", port: 443 }], {
    resolve,
    clock: { now: () => 0 },
  });
  dns.answer(() => "SERVFAIL");
  await expect(isOwn(ADDRESS, 443)).rejects.toThrow(/ESERVFAIL/);
  expect(await isOwn(ADDRESS, 8_443)).toBe(false);
  dns.answer(({ type }) => (type === "A" ? { afterMs: 700, records: RECORDS } : []));
  expect(await isOwn(ADDRESS, 443)).toBe(true);
  expect(await isOwn("192.0.2.2", 443)).toBe(false);
});

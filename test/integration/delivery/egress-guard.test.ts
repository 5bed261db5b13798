/**
 * The guard lets no request reach a forbidden target. A real name server lies, real listeners on forbidden addresses
 * count connections, and no test relies on an error alone.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import { createHostResolver } from "#webhooks/sending/http-resolver.ts";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import { type DnsRecord, type DnsServer, startDnsServer } from "#test/support/dns-server.ts";
import {
  type CountingListeners,
  hostileUrls,
  privateAddresses,
  startCountingListeners,
} from "#test/support/hostile-targets.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import vectors from "#test/support/vectors/targets.json" with { type: "json" };
import { createTestSender, requestTo } from "./http-fixtures.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** The production policy, without development's exceptions. */
const production = new AddressPolicy({ allowedCidrs: [], allowHttp: false, ownListeners: [] });
/** The same policy with http, so that the scheme rule does not hide an address rule. */
const productionOverHttp = new AddressPolicy({ allowedCidrs: [], allowHttp: true, ownListeners: [] });

let dns: DnsServer;
let listeners: CountingListeners;
let port: number;
let senders: HttpSender[] = [];

beforeAll(async () => {
  dns = await startDnsServer();
  listeners = await startCountingListeners();
  ({ port } = listeners);
});
afterAll(async () => {
  listeners.close();
  await dns.close();
});
beforeEach(() => {
  listeners.reached.clear();
});
afterEach(async () => {
  await Promise.all(senders.map((sender) => sender.close()));
  senders = [];
});

function sender(policy = productionOverHttp): HttpSender {
  const made = createTestSender({
    policy,
    resolver: createHostResolver({ timers: machineTimers, servers: [dns.address] }),
  });
  senders.push(made);
  return made;
}

const ownAddresses = (): readonly string[] => privateAddresses(production);
const total = (): number => [...listeners.reached.values()].reduce((sum, count) => sum + count, 0);
const addresses = (...values: readonly string[]): readonly DnsRecord[] => values.map((value) => ({ value }));

/** Answers with the addresses of the requested family. */
function answering(values: readonly string[]): (question: { readonly type: string }) => readonly DnsRecord[] {
  return ({ type }) => addresses(...values.filter((value) => value.includes(":") === (type === "AAAA")));
}

it("the listeners count connections on every address, which the tests below rely on", async () => {
  for (const host of ownAddresses()) {
    const socket = connect({ host, port });
    await once(socket, "connect");
    socket.resume();
    await once(socket, "close");
  }
  expect(ownAddresses().length).toBeGreaterThanOrEqual(4);
  expect(new Set(listeners.reached.keys())).toEqual(new Set(ownAddresses()));
});

describe("no listener is reached under the production policy", () => {
  it("by any hostile URL", async () => {
    const urls = hostileUrls(ownAddresses(), port);
    // Any remaining name resolves to loopback.
    dns.answer(answering(["127.0.0.1", "::1"]));
    for (const policy of [production, productionOverHttp]) {
      const http = sender(policy);
      for (const url of urls) {
        const result = await http.send(requestTo(url, { deadlineMs: 3_000 }));
        expect(result.status, url).toBeNull();
      }
      expect(http.statistics().inUse).toBe(0);
    }
    // More than 500 requests under both policies, none of which arrived.
    expect(urls.length).toBeGreaterThan(250);
    expect(total()).toBe(0);
  });

  it("by a name that resolves to any address of this machine, or to any special address", async () => {
    const http = sender();
    const hostile = [
      ...ownAddresses(),
      ...vectors.denied_addresses.filter((one) => /^[0-9a-f.:]+$/i.test(one)),
    ];
    let tried = 0;
    for (const address of hostile) {
      dns.answer(({ type }) => {
        const family = address.includes(":") ? "AAAA" : "A";
        return type === family && /^[\d.]+$|:/.test(address) ? addresses(address) : [];
      });
      const result = await http.send(requestTo(`http://n${(tried += 1)}.example.com:${port}/`));
      expect(result.error, address).toMatch(/^(?:refused|dns)$/);
    }
    expect(tried).toBeGreaterThan(40);
    expect(total()).toBe(0);
  });

  it("by public addresses mixed with a private one of either family, in any order, or behind other names", async () => {
    const http = sender();
    const mixtures: readonly (readonly string[])[] = [
      ["93.184.216.34", "127.0.0.1"],
      ["127.0.0.1", "93.184.216.34"],
      ["93.184.216.34", "::1"],
      ["2606:4700:4700::1111", "127.0.0.1"],
      [...Array.from({ length: 20 }, (_, index) => `93.184.216.${index + 1}`), "127.0.0.2"],
    ];
    for (const [index, mixture] of mixtures.entries()) {
      dns.answer(answering(mixture));
      const result = await http.send(requestTo(`http://mixed${index}.example.com:${port}/`));
      expect(result.error).toBe("refused");
    }
    dns.answer(({ name, type }) =>
      type === "A"
        ? [
            { name, value: "first.example.net" },
            { name: "first.example.net", value: "second.example.org" },
            { name: "second.example.org", value: "127.0.0.1" },
          ]
        : [],
    );
    expect((await http.send(requestTo(`http://chain.example.com:${port}/`))).error).toBe("refused");
    expect(total()).toBe(0);
  });
});

describe("a name server that changes its answer", () => {
  it("after registration and a first delivery leads nowhere, whatever the TTL", async () => {
    const receiver = await startReceiver();
    const inner = await startReceiver({ host: "127.0.0.2", port: receiver.port });
    const policy = new AddressPolicy({ allowedCidrs: ["127.0.0.1/32"], allowHttp: true, ownListeners: [] });
    const http = sender(policy);
    receiver.answer([{ kind: "answer", headers: { Connection: "close" } }]);
    for (const ttl of [0, 1, 3_600]) {
      const name = `ttl${ttl}.example.com`;
      const url = policy.checkUrl(`http://${name}:${receiver.port}/`).href;
      dns.answer(({ type }) => (type === "A" ? [{ value: "127.0.0.1", ttl }] : []));
      expect(await http.send(requestTo(url))).toMatchObject({ status: 200 });
      dns.answer(({ type }) => (type === "A" ? [{ value: "127.0.0.2", ttl }] : []));
      for (let count = 0; count < 3; count += 1) {
        const { status, error } = await http.send(requestTo(url));
        // A long TTL may still be cached: then the address is the permitted one.
        expect([status, error]).toEqual(ttl === 3_600 && status === 200 ? [200, null] : [null, "refused"]);
      }
    }
    expect(inner.connections).toBe(0);
    await receiver.close();
    await inner.close();
  });

  it("with every question never leads elsewhere: the checked address is the connected one", async () => {
    const receiver = await startReceiver();
    const inner = await startReceiver({ host: "127.0.0.2", port: receiver.port });
    const policy = new AddressPolicy({ allowedCidrs: ["127.0.0.1/32"], allowHttp: true, ownListeners: [] });
    const http = sender(policy);
    let asked = 0;
    dns.answer(({ type }) =>
      type === "A" ? addresses((asked += 1) % 2 === 1 ? "127.0.0.1" : "127.0.0.2") : [],
    );
    receiver.answer([{ kind: "answer", headers: { Connection: "close" } }]);
    const outcomes = new Set<string>();
    for (let count = 0; count < 20; count += 1) {
      const { status, error } = await http.send(requestTo(`http://flip.example.com:${receiver.port}/`));
      outcomes.add(error ?? String(status));
    }
    expect(outcomes).toEqual(new Set(["200", "refused"]));
    expect(inner.connections).toBe(0);
    await receiver.close();
    await inner.close();
  });
});

describe("a name server that fails", () => {
  it.each(["SERVFAIL", "NXDOMAIN", "garbage"] as const)("with %s causes a dns failure", async (answer) => {
    dns.answer(() => answer);
    const result = await sender().send(requestTo(`http://${answer.toLowerCase()}.example.com:${port}/`));
    expect(result).toMatchObject({ status: null, error: "dns" });
    expect(total()).toBe(0);
  });

  it("by silence fails at the deadline and delays no other request", async () => {
    const receiver = await startReceiver();
    const policy = new AddressPolicy({ allowedCidrs: ["127.0.0.1/32"], allowHttp: true, ownListeners: [] });
    const http = sender(policy);
    dns.answer(({ name, type }) =>
      name.startsWith("silent") ? "drop" : type === "A" ? addresses("127.0.0.1") : [],
    );
    const silent = Array.from({ length: 64 }, (_, index) =>
      http.send(requestTo(`http://silent${index}.example.com:${port}/`, { deadlineMs: 1_000 })),
    );
    expect(await http.send(requestTo(`http://good.example.com:${receiver.port}/`))).toMatchObject({
      status: 200,
    });
    for (const { error, status } of await Promise.all(silent)) {
      expect({ status, error }).toEqual({ status: null, error: "timeout" });
    }
    await receiver.close();
  });
});

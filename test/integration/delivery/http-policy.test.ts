import { afterEach, beforeEach, describe, expect, it, test } from "vitest";
import { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import { createOwnAddresses } from "#webhooks/sending/own-listeners.ts";
import { eventually } from "#test/support/eventually.ts";
import type { Receiver } from "#test/support/receiver-server.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import vectors from "#test/support/vectors/targets.json" with { type: "json" };
import { createTestSender, developmentPolicy, requestTo } from "./http-fixtures.ts";

/** Only one loopback address is allowed, so that others can represent the private network. */
const onlyOneAddress = new AddressPolicy({
  allowedCidrs: ["127.0.0.1/32"],
  allowHttp: true,
  ownListeners: [],
});
const production = new AddressPolicy({ allowedCidrs: [], allowHttp: false, ownListeners: [] });

let receiver: Receiver;
const senders: HttpSender[] = [];

function senderWith(policy: AddressPolicy, ...answers: readonly (readonly string[])[]): HttpSender {
  let call = 0;
  const sender = createTestSender({
    policy,
    resolver: async () => answers[Math.min((call += 1) - 1, answers.length - 1)] ?? [],
  });
  senders.push(sender);
  return sender;
}

beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(async () => {
  await Promise.all(senders.splice(0).map((sender) => sender.close()));
  await receiver.close();
});

describe("a target that the policy forbids", () => {
  it("is refused by its URL without a connection or lookup", async () => {
    let lookUps = 0;
    const sender = createTestSender({
      policy: production,
      resolver: async () => {
        lookUps += 1;
        return ["93.184.216.34"];
      },
    });
    senders.push(sender);
    for (const url of [...vectors.denied_urls, receiver.url, receiver.url.replace("http", "https")]) {
      expect(await sender.send(requestTo(url))).toMatchObject({
        status: null,
        error: "refused",
        responseBody: null,
      });
    }
    expect(lookUps).toBe(0);
    expect(receiver.connections).toBe(0);
    expect(sender.statistics().opened).toBe(0);
  });

  it.each([
    [["127.0.0.1"]],
    [["10.0.0.1"]],
    [["169.254.169.254"]],
    [["::1"]],
    [["::ffff:127.0.0.1"]],
    [["64:ff9b::7f00:1"]],
    [["93.184.216.34", "127.0.0.1"]],
    [["127.0.0.1", "93.184.216.34"]],
    [["2606:4700:4700::1111", "93.184.216.34", "fd00::1"]],
    [["not an address"]],
  ])("is refused for the DNS answer %j, despite any other addresses in it", async (addresses) => {
    const sender = senderWith(production, addresses);
    const url = `https://hooks.example.com:${receiver.port}/`;
    expect(await sender.send(requestTo(url))).toMatchObject({ status: null, error: "refused" });
    expect(receiver.connections).toBe(0);
  });

  it("is refused once its name resolves to a forbidden address", async () => {
    const inner = await startReceiver({ host: "127.0.0.2", port: receiver.port });
    receiver.answer([{ kind: "answer", headers: { Connection: "close" } }]);
    const sender = senderWith(onlyOneAddress, ["127.0.0.1"], ["127.0.0.2"]);
    const url = `http://hooks.example.com:${receiver.port}/`;
    expect(await sender.send(requestTo(url))).toMatchObject({ status: 200, error: null });
    expect(await sender.send(requestTo(url))).toMatchObject({ status: null, error: "refused" });
    expect(inner.connections).toBe(0);
    await inner.close();
  });

  it("cannot change between the check and the connect: a connection resolves once", async () => {
    const inner = await startReceiver({ host: "127.0.0.2", port: receiver.port });
    let calls = 0;
    const sender = createTestSender({
      policy: onlyOneAddress,
      resolver: async () => ((calls += 1) === 1 ? ["127.0.0.1"] : ["127.0.0.2"]),
    });
    senders.push(sender);
    expect(await sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`))).toMatchObject({
      status: 200,
    });
    expect(calls).toBe(1);
    expect(inner.connections).toBe(0);
    await inner.close();
  });

  it("is refused by the socket's actual address, before a byte is sent", async () => {
    let checks = 0;
    const sender = createTestSender({
      policy: {
        parseTarget: (raw) => developmentPolicy.parseTarget(raw),
        allowsConnection: () => (checks += 1) === 1,
      },
    });
    senders.push(sender);
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status: null, error: "refused" });
    await receiver.waitForConnections(0);
    expect(receiver.requests).toHaveLength(0);
  });

  it("is refused if its name resolves to one of our own listeners", async () => {
    const policy = new AddressPolicy({
      allowedCidrs: ["127.0.0.0/8", "::1"],
      allowHttp: true,
      ownListeners: [{ host: "0.0.0.0", port: receiver.port }],
    });
    const sender = senderWith(policy, ["127.0.0.1"]);
    expect(await sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`))).toMatchObject({
      error: "refused",
    });
    expect(receiver.connections).toBe(0);
  });
});

describe("a foreign name that resolves to one of our URLs", () => {
  const urls = (port: number) => [{ host: "signet.example.com", port }];
  const senderWithOwnName = (answers: () => Promise<readonly string[]>) => {
    const clock = { now: () => performance.timeOrigin + performance.now() };
    const sender = createTestSender({
      policy: developmentPolicy,
      resolver: async (name) => (name === "signet.example.com" ? await answers() : ["127.0.0.1"]),
      isOwnAddress: createOwnAddresses(urls(receiver.port), { resolve: answers, clock }),
    });
    senders.push(sender);
    return sender;
  };

  it("is refused at that URL's address and port, before a packet leaves", async () => {
    const sender = senderWithOwnName(async () => await Promise.resolve(["127.0.0.9", "127.0.0.1"]));
    const url = `http://hooks.example.com:${receiver.port}/`;
    expect(await sender.send(requestTo(url))).toMatchObject({ status: null, error: "refused" });
    expect(receiver.connections).toBe(0);
  });

  it("is refused at no other address, nor if our own name has none, but while that is unknown", async () => {
    const url = `http://hooks.example.com:${receiver.port}/`;
    const elsewhere = senderWithOwnName(async () => await Promise.resolve(["192.0.2.1"]));
    expect(await elsewhere.send(requestTo(url))).toMatchObject({ status: 200 });
    const nowhere = senderWithOwnName(async () => await Promise.resolve([]));
    expect(await nowhere.send(requestTo(url))).toMatchObject({ status: 200 });
    const unknown = senderWithOwnName(async () => await Promise.reject(new Error("no answer")));
    expect(await unknown.send(requestTo(url))).toMatchObject({ status: null, error: "refused" });
  });
});

test("the addresses of our own names are refreshed, and kept while lookups fail", async () => {
  let now = 0;
  let answer: () => Promise<readonly string[]> = async () => await Promise.resolve(["192.0.2.1"]);
  let asked = 0;
  const isOwn = createOwnAddresses([{ host: "signet.example.com", port: 443 }], {
    clock: { now: () => now },
    resolve: async () => {
      asked += 1;
      return await answer();
    },
  });
  expect(await isOwn("192.0.2.1", 443)).toBe(true);
  expect(await isOwn("192.0.2.1", 8_443)).toBe(false);
  expect(await isOwn("192.0.2.2", 443)).toBe(false);
  expect(asked).toBe(1);
  answer = async () => await Promise.reject(new Error("away"));
  now += 31_000;
  expect(await isOwn("192.0.2.1", 443)).toBe(true);
  answer = async () => await Promise.resolve(["192.0.2.2"]);
  now += 31_000;
  await eventually(async () => await isOwn("192.0.2.2", 443), "the new address");
  expect(await isOwn("192.0.2.1", 443)).toBe(false);
});

describe("a target that the policy allows", () => {
  it("is reached by name, with the name in the Host header", async () => {
    const sender = senderWith(developmentPolicy, ["127.0.0.1"]);
    const url = `http://hooks.example.com:${receiver.port}/`;
    expect(await sender.send(requestTo(url))).toMatchObject({ status: 200, error: null });
    expect(receiver.requests[0]?.headers.host).toBe(`hooks.example.com:${receiver.port}`);
  });

  it("is reached as localhost through the system's resolver", async () => {
    const sender = createTestSender();
    senders.push(sender);
    expect(await sender.send(requestTo(`http://localhost:${receiver.port}/`))).toMatchObject({ status: 200 });
  });

  it("is reached at its next address if one refuses the connection", async () => {
    const sender = senderWith(developmentPolicy, ["127.0.0.7", "127.0.0.8", "127.0.0.1"]);
    const url = `http://hooks.example.com:${receiver.port}/`;
    expect(await sender.send(requestTo(url))).toMatchObject({ status: 200, error: null });
  });
});

describe("a name", () => {
  it("without an address, or that the resolver fails on, causes a dns failure", async () => {
    expect(await senderWith(production, []).send(requestTo("https://hooks.example.com/"))).toMatchObject({
      status: null,
      error: "dns",
    });
    const failing = createTestSender({ resolver: () => Promise.reject(new Error("ESERVFAIL")) });
    senders.push(failing);
    expect(await failing.send(requestTo("https://hooks.example.com/"))).toMatchObject({ error: "dns" });
  });

  it("that does not exist causes a dns failure with the real resolver", async () => {
    const sender = createTestSender();
    senders.push(sender);
    expect(await sender.send(requestTo("https://hooks.example.invalid/"))).toMatchObject({ error: "dns" });
  });

  it("whose address refuses the connection causes a connect failure", async () => {
    const { port } = receiver;
    await receiver.close();
    const sender = senderWith(developmentPolicy, ["127.0.0.1", "127.0.0.2"]);
    expect(await sender.send(requestTo(`http://hooks.example.com:${port}/`))).toMatchObject({
      status: null,
      error: "connect",
    });
    receiver = await startReceiver();
  });
});

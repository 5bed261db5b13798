/** When a status list is made again, and when it is served as it is. */
import { decodeJwt } from "jose";
import { expect, test } from "vitest";
import { StatusListDocuments } from "#tokens/status-lists/documents.ts";

const ID = "stl_1";
const place = (idx: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(idx);
  return bytes;
};

function source() {
  const state = {
    nowMs: 1_800_000_000_000,
    kid: "k1",
    current: true,
    applied: 1,
    reads: 0,
    list: 7,
    places: place(1),
  };
  let waiting: Promise<void> | undefined;
  const documents = new StatusListDocuments({
    issuer: "https://issuer",
    ttlSeconds: 10,
    uriOf: (id) => `https://issuer/${id}`,
    find: async (id) => await Promise.resolve(id === ID ? state.list : undefined),
    readRevoked: async () => {
      state.reads += 1;
      const { places } = state;
      await waiting;
      return { places, jtis: [] };
    },
    view: state,
    signingKey: () => ({ kid: state.kid, alg: "ES256", sign: () => "signature" }),
    replaceRevokedKey: async () => await Promise.resolve(false),
    clock: { now: () => state.nowMs, requireRight: () => undefined },
  });
  return { state, documents, hold: (promise: Promise<void> | undefined) => void (waiting = promise) };
}

test("a list is made once for many requests, and again after its ttl; unchanged, it is the same document", async () => {
  const { state, documents } = source();
  const [first, same] = await Promise.all([documents.of(ID), documents.of(ID)]);
  expect(same).toBe(first);
  expect(state.reads).toBe(1);
  state.nowMs += 9_999;
  await documents.of(ID);
  expect(state.reads).toBe(1);
  state.nowMs += 1;
  expect(await documents.of(ID)).toBe(first);
  expect(state.reads).toBe(2);
});

test("it is made again at once after a revocation, and once more a second later", async () => {
  const { state, documents } = source();
  const first = await documents.of(ID);
  state.applied += 1;
  state.places = place(2);
  const second = await documents.of(ID);
  expect(second?.etag).not.toBe(first?.etag);
  expect(await documents.of(ID)).toBe(second);
  state.nowMs += 1_000;
  await documents.of(ID);
  expect(state.reads).toBe(3);
  state.nowMs += 1_000;
  await documents.of(ID);
  expect(state.reads).toBe(3);
});

test("a request does not get a list whose making began before a revocation that is known now", async () => {
  const { state, documents, hold } = source();
  let release: () => void = () => undefined;
  hold(new Promise((resolve) => (release = resolve)));
  const early = documents.of(ID);
  await new Promise(setImmediate);
  expect(state.reads).toBe(1);
  state.applied += 1;
  state.places = place(2);
  hold(undefined);
  const late = documents.of(ID);
  release();
  expect((await late)?.etag).not.toBe((await early)?.etag);
});

test("while revocations are unknown to this process, each request reads the database", async () => {
  const { state, documents } = source();
  await documents.of(ID);
  state.current = false;
  await documents.of(ID);
  await documents.of(ID);
  expect(state.reads).toBe(3);
});

test("it is signed again by a new key, and before half of its validity is over", async () => {
  const { state, documents } = source();
  const first = await documents.of(ID);
  state.kid = "k2";
  const second = await documents.of(ID);
  expect(second?.etag).not.toBe(first?.etag);
  state.nowMs += 149_999;
  expect(await documents.of(ID)).toBe(second);
  state.nowMs += 1;
  const third = await documents.of(ID);
  expect(third).not.toBe(second);
  const { iat, exp } = decodeJwt(third?.plain.toString() ?? "");
  expect([iat, exp]).toEqual([Math.floor(state.nowMs / 1_000), Math.floor(state.nowMs / 1_000) + 300]);
});

test("an unknown list has no document", async () => {
  expect(await source().documents.of("stl_2")).toBeUndefined();
});

/** Places in status lists: each is given once, in an order that tells nothing. */
import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { PlacedToken } from "#database/repositories/tokens/status-lists.ts";
import type { TokenSubject } from "#tokens/oauth/access-token.ts";
import {
  StatusPlaces,
  LIST_ENDS_MS,
  LIST_SIZE,
  placeOfJti,
  placeOrder,
} from "#tokens/status-lists/places.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

const SUBJECT = { credentialId: "crd_1", certificateThumbprint: undefined } as TokenSubject;

function source() {
  const clock = { nowMs: 0, now: () => clock.nowMs };
  const inserted: PlacedToken[] = [];
  const orderKey = randomBytes(32);
  let reserved = 0;
  const places = new StatusPlaces({
    timers: time,
    audiences: ["a"],
    reserve: async (count) => {
      const first = reserved;
      reserved += count;
      return await Promise.resolve({ id: "stl_1", number: 7, order_key: orderKey, first });
    },
    insert: async (tokens) => {
      inserted.push(...tokens);
      await Promise.resolve();
    },
    uriOf: (id) => `https://issuer/${id}`,
    clock,
    randomBytes,
  });
  return { places, clock, inserted, reserved: () => reserved };
}

test("the order of a list names each place once, and differs by list", () => {
  const key = randomBytes(32);
  const order = placeOrder(key);
  const seen = new Uint8Array(LIST_SIZE);
  for (let ordinal = 0; ordinal < LIST_SIZE; ordinal += 1) {
    seen[order(ordinal)] = 1;
  }
  expect(seen.every((one) => one === 1)).toBe(true);
  const [again, other] = [placeOrder(key), placeOrder(randomBytes(32))];
  const first = Array.from({ length: 100 }, (_, ordinal) => order(ordinal));
  expect(first.map((_, ordinal) => again(ordinal))).toEqual(first);
  expect(first.map((_, ordinal) => other(ordinal))).not.toEqual(first);
});

/**
 * Counts the pairs of ordinals with one half in common whose difference in the other half is that of their places in a
 * half. A random order has 512 in each of these trials; a Feistel network of four rounds has twice as many in one of them.
 */
function equalDifferences(order: (ordinal: number) => number): number[] {
  const halves = (number: number): readonly [number, number] => [number >> 10, number & 1_023];
  return [0, 1].flatMap((fixed) =>
    [0, 1].map((half) => {
      const counts = new Uint32Array(1_024);
      for (let other = 0; other < 1_024; other += 1) {
        const ordinal = fixed === 0 ? (5 << 10) | other : (other << 10) | 5;
        counts[other ^ (halves(order(ordinal))[half] ?? 0)]! += 1;
      }
      return counts.reduce((pairs, count) => pairs + (count * (count - 1)) / 2, 0);
    }),
  );
}

test("the order passes the test that tells four rounds from a random order", () => {
  const sums = [0, 0, 0, 0];
  for (let list = 0; list < 16; list += 1) {
    const key = createHash("sha256").update(`list ${list}`).digest();
    equalDifferences(placeOrder(key)).forEach((pairs, trial) => (sums[trial]! += pairs));
  }
  for (const sum of sums) {
    expect(sum / 16 / 512).toBeGreaterThan(0.9);
    expect(sum / 16 / 512).toBeLessThan(1.1);
  }
});

test("concurrent tokens share reservations, and none shares a place", async () => {
  const { places, reserved } = source();
  const taken = await Promise.all(Array.from({ length: 3_000 }, async () => await places.take()));
  expect(new Set(taken.map(({ idx }) => idx)).size).toBe(3_000);
  expect(reserved()).toBe(3 * 1_024);
});

test("a block is not used until its list may end", async () => {
  const { places, clock, reserved } = source();
  await places.take();
  clock.nowMs = LIST_ENDS_MS - 1_200_001;
  await places.take();
  expect(reserved()).toBe(1_024);
  clock.nowMs = LIST_ENDS_MS - 1_200_000;
  await places.take();
  expect(reserved()).toBe(2 * 1_024);
});

test("a token's jti names its place, in its own list only", async () => {
  const { places } = source();
  const { jti, idx, list, uri } = await places.take();
  expect(uri).toBe("https://issuer/stl_1");
  expect(placeOfJti(jti, list)).toBe(idx);
  expect(placeOfJti(jti, list + 1)).toBeUndefined();
});

describe("no place", () => {
  test.each([
    ["a shorter id", "AAAA"],
    ["a longer id", Buffer.alloc(17).toString("base64url")],
    ["no base64", "…"],
    ["a place beyond the list", Buffer.from("00000000000000000000000700100000", "hex").toString("base64url")],
  ])("is named by %s", (_name, jti) => {
    expect(placeOfJti(jti, 7)).toBeUndefined();
  });
});

test("tokens that are issued at the same time are recorded by one statement", async () => {
  const { places, inserted } = source();
  const [one, other] = [await places.take(), await places.take()];
  await Promise.all([
    places.record(one, SUBJECT, 5),
    places.record(other, { ...SUBJECT, certificateThumbprint: "AAAA" }, 6),
  ]);
  expect(inserted).toEqual([
    { list: 7, place: one.idx, credentialId: "crd_1", issuedAt: 5, certificate: null },
    { list: 7, place: other.idx, credentialId: "crd_1", issuedAt: 6, certificate: Buffer.alloc(3) },
  ]);
});

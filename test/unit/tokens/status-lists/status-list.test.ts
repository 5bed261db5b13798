/** The status list token: its bits, its form, and its size. */
import { generateKeyPairSync, sign } from "node:crypto";
import { gzipSync, inflateSync } from "node:zlib";
import { getListFromStatusListJWT } from "@sd-jwt/jwt-status-list";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { expect, test } from "vitest";
import { LIST_SIZE } from "#tokens/status-lists/places.ts";
import { signStatusList, statusBits } from "#tokens/status-lists/status-list.ts";
import { seededRandom } from "#test/support/seeded-random.ts";

const CLAIMS = { iss: "https://issuer", sub: "https://issuer/1", iat: 1, exp: 301, ttl: 15 };
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const KEY = {
  kid: "k",
  alg: "ES256",
  sign: (text: string) =>
    sign("sha256", Buffer.from(text, "latin1"), { key: privateKey, dsaEncoding: "ieee-p1363" }).toString(
      "base64url",
    ),
} as const;

function placesWith(share: number): Buffer {
  const random = seededRandom(1);
  const places: number[] = [];
  for (let idx = 0; idx < LIST_SIZE; idx += 1) {
    if (random() < share) {
      places.push(idx);
    }
  }
  const bytes = Buffer.alloc(4 * places.length);
  places.forEach((idx, at) => bytes.writeUInt32BE(idx, 4 * at));
  return bytes;
}

test("the bits are the draft's: the least significant bit of the first byte is place 0", () => {
  const places = Buffer.alloc(16);
  [0, 9, 15, LIST_SIZE - 1].forEach((idx, at) => places.writeUInt32BE(idx, 4 * at));
  const bits = statusBits({ places, jtis: ["AAAA", "not a place"] }, 7);
  expect(bits).toHaveLength(LIST_SIZE / 8);
  expect([bits[0], bits[1], bits.at(-1)]).toEqual([0b1, 0b1000_0010, 0b1000_0000]);
});

test("the token has the claims of a status list token, and an unsigned copy of nothing else", async () => {
  const bits = Buffer.alloc(LIST_SIZE / 8, 1);
  const token = await signStatusList(bits, CLAIMS, KEY);
  expect(decodeProtectedHeader(token)).toEqual({ alg: "ES256", kid: "k", typ: "statuslist+jwt" });
  const { status_list: list, ...claims } = decodeJwt<{ status_list: { bits: number; lst: string } }>(token);
  expect(claims).toEqual(CLAIMS);
  expect(list.bits).toBe(1);
  expect(inflateSync(Buffer.from(list.lst, "base64url")).equals(bits)).toBe(true);
  expect(getListFromStatusListJWT(token).getStatus(8)).toBe(1);
});

/** The figures of docs/learning-of-revocations.md: 2^20 tokens, as sent with gzip. */
test.each([
  [0, 1],
  [0.001, 4],
  [0.01, 22],
  [0.1, 90],
  [0.5, 180],
])("a list of a million tokens with a share of %d revoked has at most %d kB", async (share, most) => {
  const bits = statusBits({ places: placesWith(share), jtis: [] }, 1);
  const jwt = await signStatusList(bits, CLAIMS, KEY);
  const sent = gzipSync(jwt).length;
  console.info(`share ${share}: ${sent} bytes with gzip, ${jwt.length} without`);
  expect(sent).toBeLessThanOrEqual(most * 1_000);
});

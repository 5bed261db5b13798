/** The status list token: its bits, its form, and its size. */
import { generateKeyPairSync, sign, verify } from "node:crypto";
import { gzipSync, inflateSync } from "node:zlib";
import { getListFromStatusListJWT } from "@sd-jwt/jwt-status-list";
import { decode, encode } from "cborg";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { expect, test } from "vitest";
import { LIST_SIZE } from "../../../../src/tokens/status-lists/places.ts";
import { signStatusList, statusBits } from "../../../../src/tokens/status-lists/status-list.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

const CLAIMS = { iss: "https://issuer", sub: "https://issuer/1", iat: 1, exp: 301, ttl: 15 };
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
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
  const { jwt: token } = await signStatusList(bits, CLAIMS, KEY);
  expect(decodeProtectedHeader(token)).toEqual({ alg: "ES256", kid: "k", typ: "statuslist+jwt" });
  const { status_list: list, ...claims } = decodeJwt<{ status_list: { bits: number; lst: string } }>(token);
  expect(claims).toEqual(CLAIMS);
  expect(list.bits).toBe(1);
  expect(inflateSync(Buffer.from(list.lst, "base64url")).equals(bits)).toBe(true);
  expect(getListFromStatusListJWT(token).getStatus(8)).toBe(1);
});

/** Decodes with another implementation. @throws Error if it is not CBOR in its strict form */
function decoded(bytes: Uint8Array): unknown {
  return decode(bytes, { useMaps: true, strict: true, rejectDuplicateMapKeys: true });
}

test("the CWT is a COSE_Sign1 of the same claims, which another implementation of CBOR decodes", async () => {
  const bits = Buffer.alloc(LIST_SIZE / 8, 1);
  const { cwt } = await signStatusList(bits, CLAIMS, KEY);
  expect(cwt[0]).toBe(0xc0 + 18);
  const message = decoded(cwt.subarray(1)) as [Uint8Array, unknown, Uint8Array, Uint8Array];
  const [header, unprotected, payload, signature, ...others] = message;
  expect([unprotected, others]).toEqual([new Map(), []]);
  const kid = new Uint8Array(Buffer.from("k"));
  expect(decoded(header)).toEqual(
    new Map<number, unknown>([
      [1, -7],
      [4, kid],
      [16, "application/statuslist+cwt"],
    ]),
  );
  const claims = decoded(payload) as Map<number, unknown>;
  const { iss, sub, exp, iat, ttl } = CLAIMS;
  const list = claims.get(65_533) as Map<string, unknown>;
  expect([...claims]).toEqual([
    [1, iss],
    [2, sub],
    [4, exp],
    [6, iat],
    [65_533, list],
    [65_534, ttl],
  ]);
  expect(list.get("bits")).toBe(1);
  expect(inflateSync(list.get("lst") as Uint8Array).equals(bits)).toBe(true);
  // RFC 9052 section 4.4: the Sig_structure.
  const signed = encode(["Signature1", header, new Uint8Array(), payload]);
  expect(verify("sha256", signed, { key: publicKey, dsaEncoding: "ieee-p1363" }, signature)).toBe(true);
});

/** The figures of docs/learning-of-revocations.md: 2^20 tokens, as sent: a JWT with gzip, a CWT as it is. */
test.each([
  [0, 1, 0.5],
  [0.001, 4, 3.5],
  [0.01, 22, 18],
  [0.1, 90, 75],
  [0.5, 180, 131.5],
])(
  "a list of a million tokens with a share of %d revoked has at most %d kB, as CWT %d",
  async (share, most, mostCwt) => {
    const bits = statusBits({ places: placesWith(share), jtis: [] }, 1);
    const { jwt, cwt } = await signStatusList(bits, CLAIMS, KEY);
    const sent = gzipSync(jwt).length;
    console.info(`share ${share}: ${sent} bytes with gzip, ${jwt.length} without, ${cwt.length} as CWT`);
    expect(sent).toBeLessThanOrEqual(most * 1_000);
    expect(cwt.length).toBeLessThanOrEqual(mostCwt * 1_000);
  },
);

/** Every way to alter a token in the security decisions, and some more: only one kind of token is accepted. */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import type { SignetError } from "#domain/errors.ts";
import { unguardedClock } from "#domain/clock.ts";
import { createTokenMint } from "#tokens/oauth/access-token.ts";
import {
  generateSigningKey,
  openSigningKey,
  openVerificationKey,
  type VerificationKey,
} from "#tokens/signing-keys/signing-key.ts";
import { createTokenVerifier, type VerifyToken } from "#tokens/oauth/verify-access-token.ts";
import { testKeyring } from "#test/support/keyring.ts";

const ISSUER = "https://service.example";
const NOW_MS = 1_763_650_000_000;
const NOW = NOW_MS / 1_000;

const keyring = testKeyring();
const row = await generateSigningKey("ES256", keyring);
const signingKey = await openSigningKey(row, keyring);
const publicKey = openVerificationKey(row);
const subject = {
  clientId: "cl_000000000000000000000000",
  tenantId: "ten_06gzkqfw1vef5z17bwfnzgnc",
  principalId: "prn_06gzkqfw1vef5z17bwfnzgnc",
  credentialId: "crd_06gzkqfw1vef5z17bwfnzgnc",
  secretVersion: 3,
  region: "eu-west-1",
  scope: "inference:read webhooks:write",
};
const { token } = await createTokenMint({
  issuer: ISSUER,
  audience: "signet",
  keys: { signingKey: () => signingKey },
  clock: unguardedClock({ now: () => NOW_MS }),
  randomBytes,
})(subject);

const [headerPart = "", payloadPart = "", signaturePart = ""] = token.split(".");
type Members = Record<string, unknown>;
const decode = (part: string): Members => JSON.parse(Buffer.from(part, "base64url").toString()) as Members;
const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const HEADER = decode(headerPart);
const CLAIMS = decode(payloadPart);

/** Returns a token with these members, signed with our key: the product of a bug, not of a forger. */
function signed(header: Members, claims: unknown): string {
  const text = `${encode(header)}.${encode(claims)}`;
  return `${text}.${signingKey.sign(text) as string}`;
}

const claim = (members: Members): string => signed(HEADER, { ...CLAIMS, ...members });
const head = (members: Members): string => signed({ ...HEADER, ...members }, CLAIMS);

/** ES256 accepts (r, n - s) as well as (r, s). */
function otherSpelling(): string {
  const n = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const bytes = Buffer.from(signaturePart, "base64url");
  const s = BigInt(`0x${bytes.subarray(32).toString("hex")}`);
  const other = Buffer.from((n - s).toString(16).padStart(64, "0"), "hex");
  return `${headerPart}.${payloadPart}.${Buffer.concat([bytes.subarray(0, 32), other]).toString("base64url")}`;
}

let nowMs: number;
let keys: Map<string, VerificationKey | "revoked">;
let lookups: number;
let verify: VerifyToken;

beforeEach(() => {
  nowMs = NOW_MS;
  keys = new Map([[row.kid, publicKey]]);
  lookups = 0;
  verify = createTokenVerifier({
    issuer: ISSUER,
    audience: "signet",
    keys: {
      verificationKey: async (kid) => {
        lookups += 1;
        return keys.get(kid);
      },
    },
    clock: { now: () => nowMs },
  });
});

async function refusal(text: string): Promise<string> {
  try {
    await verify(text);
    return "accepted";
  } catch (error) {
    return (error as SignetError).code;
  }
}

test("our own token identifies its caller", async () => {
  expect(await verify(token)).toEqual({
    tenantId: subject.tenantId,
    principalId: subject.principalId,
    credentialId: subject.credentialId,
    clientId: subject.clientId,
    scopes: new Set(["inference:read", "webhooks:write"]),
    region: "eu-west-1",
    jti: CLAIMS["jti"],
    kid: row.kid,
    issuedAt: NOW,
  });
});

test("a token without scopes is valid and has none", async () => {
  expect((await verify(claim({ scope: "" }))).scopes.size).toBe(0);
});

describe("rejected as TOKEN_INVALID:", () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2_048 });
  const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const byStranger = (header: Members): string => {
    const text = `${encode(header)}.${payloadPart}`;
    const signature = sign("sha256", Buffer.from(text), {
      key: stranger.privateKey,
      dsaEncoding: "ieee-p1363",
    });
    return `${text}.${signature.toString("base64url")}`;
  };
  const strangerJwk = stranger.publicKey.export({ format: "jwk" });

  test.each([
    ["an empty text", ""],
    ["two parts", `${headerPart}.${payloadPart}`],
    ["four parts", `${token}.${signaturePart}`],
    ["no signature", `${headerPart}.${payloadPart}.`],
    ["a zero signature", `${headerPart}.${payloadPart}.${Buffer.alloc(64).toString("base64url")}`],
    ["another payload", `${headerPart}.${encode({ ...CLAIMS, tenant: "ten_x" })}.${signaturePart}`],
    ["a payload that is not an object", signed(HEADER, "text")],
    ["padding", `${token}==`],
    ["white space", `${token} `],
    ["base64 instead of base64url", `${headerPart}.${payloadPart}.${signaturePart.slice(0, -1)}+`],
    ["4 KiB and more", claim({ padding: "x".repeat(4_096) })],
    ["alg none", `${encode({ ...HEADER, alg: "none" })}.${payloadPart}.AA`],
    ["alg None", `${encode({ ...HEADER, alg: "None" })}.${payloadPart}.AA`],
    ["alg HS256", `${encode({ ...HEADER, alg: "HS256" })}.${payloadPart}.${signaturePart}`],
    [
      "alg RS256",
      `${encode({ ...HEADER, alg: "RS256" })}.${payloadPart}.${sign("sha256", Buffer.from("x"), rsa.privateKey).toString("base64url")}`,
    ],
    ["alg es256", head({ alg: "es256" })],
    ["a stranger's key under our kid", byStranger(HEADER)],
    ["a stranger's key under its own kid", byStranger({ ...HEADER, kid: "stranger" })],
    ["a stranger's key in the header", byStranger({ ...HEADER, jwk: strangerJwk })],
    ["jwk in the header", head({ jwk: row.public_jwk })],
    ["jku in the header", head({ jku: "https://evil.example/jwks.json" })],
    ["x5u in the header", head({ x5u: "https://evil.example/cert" })],
    ["x5c in the header", head({ x5c: ["AA=="] })],
    ["crit in the header", head({ crit: ["exp"], exp: 1 })],
    ["an unencoded payload", head({ b64: false, crit: ["b64"] })],
    ["no kid", signed({ alg: "ES256", typ: "at+jwt" }, CLAIMS)],
    ["a kid that is not a text", head({ kid: 1 })],
    ["a kid with a path", head({ kid: "../../../../dev/null" })],
    ["typ JWT", head({ typ: "JWT" })],
    ["no typ", signed({ alg: "ES256", kid: row.kid }, CLAIMS)],
    ["another issuer", claim({ iss: "https://evil.example" })],
    ["the issuer with a slash", claim({ iss: `${ISSUER}/` })],
    ["another audience", claim({ aud: "other" })],
    ["a list of audiences", claim({ aud: ["signet"] })],
    ["no audience", claim({ aud: undefined })],
    ["no exp", claim({ exp: undefined })],
    ["exp as text", claim({ exp: String(NOW + 900) })],
    ["no iat", claim({ iat: undefined })],
    ["iat in the future", claim({ iat: NOW + 60 })],
    ["nbf in the future", claim({ nbf: NOW + 60 })],
    ...["sub", "client_id", "jti", "tenant", "region", "prn", "cid", "scope"].map((name) => [
      `no ${name}`,
      claim({ [name]: undefined }),
    ]),
    ["a tenant that is not a text", claim({ tenant: 1 })],
    ["scopes as a list", claim({ scope: ["inference:read"] })],
  ] as [string, string][])("%s", async (_name, text) => {
    expect(await refusal(text)).toBe("TOKEN_INVALID");
  });
});

test("a token expires after 900 seconds plus 5 of skew, with its own error", async () => {
  nowMs = NOW_MS + 904_000;
  expect(await refusal(token)).toBe("accepted");
  nowMs = NOW_MS + 905_000;
  expect(await refusal(token)).toBe("TOKEN_EXPIRED");
});

test("a token cannot live longer than 15 minutes, whatever its claims", async () => {
  nowMs = NOW_MS + 1_000_000;
  expect(await refusal(claim({ exp: NOW + 100_000 }))).toBe("TOKEN_EXPIRED");
});

test("an accepted token expires like any other", async () => {
  expect(await refusal(token)).toBe("accepted");
  nowMs = NOW_MS + 905_000;
  expect(await refusal(token)).toBe("TOKEN_EXPIRED");
});

test("an accepted token ends with its key", async () => {
  expect(await refusal(token)).toBe("accepted");
  keys.clear();
  expect(await refusal(token)).toBe("TOKEN_INVALID");
});

test("a token of a revoked key is revoked, even if accepted before", async () => {
  keys.set(row.kid, "revoked");
  expect(await refusal(token)).toBe("TOKEN_REVOKED");
  keys.set(row.kid, publicKey);
  expect(await refusal(token)).toBe("accepted");
  keys.set(row.kid, "revoked");
  expect(await refusal(token)).toBe("TOKEN_REVOKED");
});

test("an accepted token's key is checked on every request", async () => {
  await verify(token);
  const before = lookups;
  await verify(token);
  expect(lookups).toBe(before + 1);
});

test("two spellings of one signature identify the same token", async () => {
  const other = otherSpelling();
  expect(other).not.toBe(token);
  expect(await verify(other)).toEqual(await verify(token));
});

test("a failed key look-up is not a verdict on the token", async () => {
  const broken = createTokenVerifier({
    issuer: ISSUER,
    audience: "signet",
    keys: { verificationKey: async () => await Promise.reject(new Error("database down")) },
    clock: { now: () => nowMs },
  });
  await expect(broken(token)).rejects.toThrow("database down");
});

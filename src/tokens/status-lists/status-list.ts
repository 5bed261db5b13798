/** The status list token: a signed list of one bit per token (draft-ietf-oauth-status-list, sections 4 and 5). */
import { promisify } from "node:util";
import { deflate } from "node:zlib";
import type { RevokedPlaces } from "#database/repositories/tokens/status-lists.ts";
import type { SigningKey } from "../signing-keys/signing-key.ts";
import { LIST_SIZE, placeOfJti } from "./places.ts";

export const STATUS_LIST_JWT = "application/statuslist+jwt";

const deflated = promisify(deflate);

/** Returns a list's bits: bit `idx % 8` of byte `idx / 8`, counted from the least significant, is 1 for a revoked token. */
export function statusBits({ places, jtis }: RevokedPlaces, list: number): Buffer {
  const bits = Buffer.alloc(LIST_SIZE / 8);
  const revoke = (idx: number): void => {
    bits[idx >> 3] = (bits[idx >> 3] ?? 0) | (1 << (idx & 7));
  };
  for (let at = 0; at < places.length; at += 4) {
    revoke(places.readUInt32BE(at));
  }
  for (const jti of jtis) {
    const idx = placeOfJti(jti, list);
    if (idx !== undefined) {
      revoke(idx);
    }
  }
  return bits;
}

/** The claims of a list, without its bits. Times are in seconds of Unix time, `ttl` in seconds. */
export interface StatusListClaims {
  readonly iss: string;
  /** The list's address, which tokens name in `status.status_list.uri`. */
  readonly sub: string;
  readonly iat: number;
  readonly exp: number;
  readonly ttl: number;
}

/** Signs a list. Returns a JWT. */
export async function signStatusList(
  bits: Buffer,
  claims: StatusListClaims,
  key: SigningKey,
): Promise<string> {
  const lst = await deflated(bits);
  const header = { alg: key.alg, kid: key.kid, typ: "statuslist+jwt" };
  const payload = { ...claims, status_list: { bits: 1, lst: lst.toString("base64url") } };
  const signed = [header, payload]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  return `${signed}.${await key.sign(signed)}`;
}

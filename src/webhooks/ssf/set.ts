/** Security event tokens (RFC 8417), as the Shared Signals Framework 1.0 profiles them (section 4). */

/** The part of a signing key that signs tokens. */
export interface SetKey {
  readonly kid: string;
  readonly alg: string;
  /** Signs an ASCII text. Returns base64url. */
  sign(text: string): string | Promise<string>;
}

/** Returns the key that signs now. @throws SignetError UNAVAILABLE if there is none */
export type SetKeys = () => SetKey;

/** The claims of a token that differ between the streams that get the same event. */
export interface SetClaims {
  /** `jti`: the same in every attempt. */
  readonly id: string;
  /** `aud`: the id of the stream. */
  readonly streamId: string;
  /** `iat`: when the event was published, whenever the token is signed. */
  readonly occurredAt: Date;
  /** JSON text of an object with the other claims: `iss`, `txn`, `sub_id` and `events`. */
  readonly claimsJson: string;
}

/** Media type of a token (RFC 8417 section 7.2). */
export const SET_TYPE = "application/secevent+jwt";

/**
 * Returns the signed token. It is signed when it is sent, with the key of that time: a token that is sent again after
 * days can be verified with the published keys. Only its signature and `kid` differ then.
 */
export async function signSet(
  keys: SetKeys,
  { id, streamId, occurredAt, claimsJson }: SetClaims,
): Promise<string> {
  const key = keys();
  const { kid, alg } = key;
  const iat = Math.floor(occurredAt.getTime() / 1_000);
  const own = JSON.stringify({ jti: id, iat, aud: streamId });
  const header = JSON.stringify({ alg, typ: "secevent+jwt", kid });
  const encode = (text: string): string => Buffer.from(text).toString("base64url");
  const signed = `${encode(header)}.${encode(`${own.slice(0, -1)},${claimsJson.slice(1)}`)}`;
  return `${signed}.${await key.sign(signed)}`;
}

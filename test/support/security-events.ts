/** Signed security events for the receiver of our own library. */
import { exportJWK, generateKeyPair, SignJWT } from "jose";

export const ISSUER = "https://signet.example";
export const STREAM = "ssf_01jd3c5xq8m2v7k9r4t6w0zy";
export const REVOKED = "https://schemas.openid.net/secevent/caep/event-type/session-revoked";
/** Unix seconds: the time of the tokens. */
export const NOW_S = 1_763_650_000;

export const subject = (sub: string) => ({ format: "iss_sub", iss: ISSUER, sub });

export interface SecurityEvents {
  /** The transmitter's key set. */
  readonly keys: { readonly keys: readonly object[] };
  /** Returns a signed token with these claims and members of its header. */
  token(claims?: object, header?: object): Promise<string>;
}

/** Creates a transmitter with a key of its own. */
export async function securityEvents(): Promise<SecurityEvents> {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  const jwk = { ...(await exportJWK(publicKey)), kid: "one", alg: "ES256", use: "sig" };
  let count = 0;
  return {
    keys: { keys: [jwk] },
    token: async (claims = {}, header = {}) => {
      count += 1;
      const payload = {
        iss: ISSUER,
        aud: STREAM,
        iat: NOW_S,
        jti: `set_made_${count}`,
        sub_id: subject("cl_1"),
        events: { [REVOKED]: { event_timestamp: NOW_S } },
        ...claims,
      };
      return await new SignJWT(payload)
        .setProtectedHeader({ alg: "ES256", typ: "secevent+jwt", kid: "one", ...header })
        .sign(privateKey);
    },
  };
}

/** The access token: a JWT as in RFC 9068, with the members of contract 4.2. */
import type { GuardedClock } from "#domain/clock.ts";
import { TOKEN_LIFETIME_SECONDS } from "#domain/identity.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { KeyStore } from "../signing-keys/key-store.ts";

const JTI_BYTES = 16;

/** A token's place in a status list (draft-ietf-oauth-status-list). */
export interface Place {
  /** The list's address. */
  readonly uri: string;
  /** Position of the token's bit. */
  readonly idx: number;
  /** The id for the token. It names the place, so that the revocation of a single token needs no look-up. */
  readonly jti: string;
  /** The list's number. */
  readonly list: number;
}

/** The holder of the token and its rights. */
export interface TokenSubject {
  readonly clientId: string;
  readonly tenantId: string;
  readonly principalId: string;
  readonly credentialId: string;
  /** 0 for a client without a secret. */
  readonly secretVersion: number;
  readonly region: string;
  /** Scopes, separated by spaces. */
  readonly scope: string;
  /** `aud` of the token; by default, the mint's own audience. */
  readonly audience?: string;
  /** `x5t#S256` of the certificate that the token is bound to (RFC 8705 section 3.1). */
  readonly certificateThumbprint?: string | undefined;
  /** Its place in a status list, if it has one. */
  readonly place?: Place | undefined;
}

export interface MintedToken {
  readonly token: string;
  /** The token's id. */
  readonly jti: string;
  /** Id of the key that signed it. */
  readonly kid: string;
}

/** Returns a signed token for the subject, valid from now for 900 seconds. @throws SignetError `CLOCK_SKEWED` */
export type MintToken = (subject: TokenSubject) => Promise<MintedToken>;

export interface TokenMintOptions {
  readonly issuer: string;
  readonly audience: string;
  readonly keys: Pick<KeyStore, "signingKey">;
  readonly clock: Pick<GuardedClock, "now" | "requireRight">;
  readonly randomBytes: RandomBytes;
}

function encode(text: string): string {
  return Buffer.from(text).toString("base64url");
}

/** Creates the token signer. */
export function createTokenMint(options: TokenMintOptions): MintToken {
  const { issuer, audience, keys, clock, randomBytes } = options;
  return async (subject) => {
    clock.requireRight();
    const key = keys.signingKey();
    const { place } = subject;
    const jti = place?.jti ?? Buffer.from(randomBytes(JTI_BYTES)).toString("base64url");
    const issuedAt = Math.floor(clock.now() / 1_000);
    const claims = {
      iss: issuer,
      sub: subject.clientId,
      aud: subject.audience ?? audience,
      client_id: subject.clientId,
      scope: subject.scope,
      jti,
      iat: issuedAt,
      nbf: issuedAt,
      exp: issuedAt + TOKEN_LIFETIME_SECONDS,
      tenant: subject.tenantId,
      region: subject.region,
      prn: subject.principalId,
      cid: subject.credentialId,
      cv: subject.secretVersion,
      status: place && { status_list: { idx: place.idx, uri: place.uri } },
      ...(subject.certificateThumbprint === undefined
        ? {}
        : { cnf: { "x5t#S256": subject.certificateThumbprint } }),
    };
    const header = encode(`{"alg":"${key.alg}","typ":"at+jwt","kid":"${key.kid}"}`);
    const signed = `${header}.${encode(JSON.stringify(claims))}`;
    return { token: `${signed}.${await key.sign(signed)}`, jti, kid: key.kid };
  };
}

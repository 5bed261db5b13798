/** The identity of a caller, from its token or session. */
import type { OperatorRole } from "./operator-roles.ts";

/** The life of an access token, in seconds (contract 8). */
export const TOKEN_LIFETIME_SECONDS = 900;
/** The same in minutes, for texts. */
export const TOKEN_LIFETIME_MINUTES = TOKEN_LIFETIME_SECONDS / 60;

/** A principal's environment: production secrets contain `live`, others `test`. */
export type PrincipalEnvironment = "production" | "development";

/** The caller of a tenant's request, from the claims of its access token. */
export interface Identity {
  readonly tenantId: string;
  readonly principalId: string;
  readonly credentialId: string;
  readonly clientId: string;
  readonly scopes: ReadonlySet<string>;
  readonly region: string;
  readonly jti: string;
  /** The key that signed the token. */
  readonly kid: string;
  /** Seconds of Unix time. */
  readonly issuedAt: number;
  /** `x5t#S256` of the certificate that the token is bound to (RFC 8705); undefined if it is not bound. */
  readonly certificateThumbprint: string | undefined;
  /** Whether a session of the portal makes the request. */
  readonly isSession?: true;
}

/** The caller of a request to the operators' API. */
export interface OperatorIdentity {
  /** The operator's id, or `bootstrap`. */
  readonly id: string;
  readonly permissions: ReadonlySet<OperatorRole>;
}

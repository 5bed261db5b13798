/** What tokens are compared with: the live revocations by what a token says of itself, so that a look is a look into a Map. */
import { REVOCATION_KINDS, type RevocationKind } from "./kinds.ts";

/** What a token says that can be revoked. */
export interface RevocableToken {
  readonly credentialId: string;
  readonly principalId: string;
  readonly tenantId: string;
  readonly jti: string;
  readonly kid: string;
  /** `x5t#S256` of the certificate that it is bound to. */
  readonly certificateThumbprint: string | undefined;
}

/** Certificates are revoked by hexadecimal digits and named by tokens in base64url (RFC 8705 section 3.1). */
function asTokensSay(kind: RevocationKind, target: string): string {
  return kind === "cert" ? Buffer.from(target, "hex").toString("base64url") : target;
}

export class DenyList {
  readonly #kinds = new Map(REVOCATION_KINDS.map((kind) => [kind, new Map<string, number>()]));
  readonly #credentials = this.#of("credential");
  readonly #principals = this.#of("principal");
  readonly #tenants = this.#of("tenant");
  readonly #tokens = this.#of("jti");
  readonly #keys = this.#of("kid");
  readonly #certificates = this.#of("cert");

  #of(kind: RevocationKind): Map<string, number> {
    return this.#kinds.get(kind) as Map<string, number>;
  }

  /** Denies a target until the given instant of the caller's monotonic clock. */
  add(kind: RevocationKind, target: string, until: number): void {
    const denied = this.#of(kind);
    const key = asTokensSay(kind, target);
    denied.set(key, Math.max(until, denied.get(key) ?? 0));
  }

  /** Whether a token is revoked, for any of the six reasons. An entry counts until `prune` has found it over. */
  denies(token: RevocableToken): boolean {
    return (
      this.#credentials.has(token.credentialId) ||
      this.#principals.has(token.principalId) ||
      this.#tenants.has(token.tenantId) ||
      this.#tokens.has(token.jti) ||
      this.#keys.has(token.kid) ||
      (token.certificateThumbprint !== undefined && this.deniesCertificate(token.certificateThumbprint))
    );
  }

  /** Whether a certificate is revoked, by its `x5t#S256`. */
  deniesCertificate(thumbprint: string): boolean {
    return this.#certificates.has(thumbprint);
  }

  /** Forgets what is over. */
  prune(now: number): void {
    for (const denied of this.#kinds.values()) {
      for (const [target, until] of denied) {
        if (until <= now) {
          denied.delete(target);
        }
      }
    }
  }

  get size(): number {
    return [...this.#kinds.values()].reduce((sum, { size }) => sum + size, 0);
  }
}

/** What tokens are compared with: the live revocations by what a token says of itself, so that a look is a look into a Map. */
import { REVOCATION_KINDS, type RevocationKind } from "./kinds.ts";

/** What a token says that can be revoked. */
export interface RevocableToken {
  readonly credentialId: string;
  readonly principalId: string;
  readonly tenantId: string;
  readonly jti: string;
  readonly kid: string;
  /** Seconds of Unix time. */
  readonly issuedAt: number;
  /** `x5t#S256` of the certificate that it is bound to. */
  readonly certificateThumbprint: string | undefined;
}

interface Denial {
  /** Of the caller's monotonic clock. */
  until: number;
  /** When it was published, by the database's clock; infinite while only a notification tells of it. */
  atMs: number;
  /** Tokens issued before this second are denied; all of them, unless the revocation was undone. */
  issuedBefore: number;
}

/** Certificates are revoked by hexadecimal digits and named by tokens in base64url (RFC 8705 section 3.1). */
function asTokensSay(kind: RevocationKind, target: string): string {
  return kind === "cert" ? Buffer.from(target, "hex").toString("base64url") : target;
}

export class DenyList {
  readonly #kinds = new Map(REVOCATION_KINDS.map((kind) => [kind, new Map<string, Denial>()]));
  readonly #credentials = this.#of("credential");
  readonly #principals = this.#of("principal");
  readonly #tenants = this.#of("tenant");
  readonly #tokens = this.#of("jti");
  readonly #keys = this.#of("kid");
  readonly #certificates = this.#of("cert");

  #of(kind: RevocationKind): Map<string, Denial> {
    return this.#kinds.get(kind) as Map<string, Denial>;
  }

  /**
   * Denies a target until the given instant of the caller's monotonic clock.
   *
   * @param atMs when it was revoked, by the database's clock; infinite where that is not known
   */
  add(kind: RevocationKind, target: string, until: number, atMs = Infinity): void {
    const denied = this.#of(kind);
    const key = asTokensSay(kind, target);
    const known = denied.get(key);
    if (known !== undefined && known.issuedBefore < Infinity && atMs <= known.atMs) {
      // The revocation that was undone, read once more.
      return;
    }
    // What a notification told of has its instant from the answer that follows.
    const at = known === undefined || known.atMs === Infinity ? atMs : Math.max(atMs, known.atMs);
    denied.set(key, { until: Math.max(until, known?.until ?? 0), atMs: at, issuedBefore: Infinity });
  }

  /** Undoes the revocation of a tenant that was published before `atMs`: only what was issued before stays denied. */
  liftTenant(target: string, atMs: number, issuedBefore: number): void {
    const known = this.#tenants.get(target);
    if (known !== undefined && known.atMs <= atMs) {
      this.#tenants.set(target, { until: known.until, atMs, issuedBefore });
    }
  }

  /** Whether a token is revoked, for any of the six reasons. An entry counts until `prune` has found it over. */
  denies(token: RevocableToken): boolean {
    return this.#deniesTenant(token) || this.#deniesForEver(token);
  }

  /** The second of Unix time from which on such a token can be issued: 0 for now, infinite for never. */
  issuableFrom(token: RevocableToken): number {
    if (this.#deniesForEver(token)) {
      return Infinity;
    }
    return this.#deniesTenant(token) ? (this.#tenants.get(token.tenantId)?.issuedBefore ?? 0) : 0;
  }

  #deniesForEver(token: RevocableToken): boolean {
    return (
      this.#credentials.has(token.credentialId) ||
      this.#principals.has(token.principalId) ||
      this.#tokens.has(token.jti) ||
      this.#keys.has(token.kid) ||
      (token.certificateThumbprint !== undefined && this.deniesCertificate(token.certificateThumbprint))
    );
  }

  #deniesTenant({ tenantId, issuedAt }: RevocableToken): boolean {
    const denial = this.#tenants.get(tenantId);
    return denial !== undefined && issuedAt < denial.issuedBefore;
  }

  /** Whether a certificate is revoked, by its `x5t#S256`. */
  deniesCertificate(thumbprint: string): boolean {
    return this.#certificates.has(thumbprint);
  }

  /** Forgets what is over. */
  prune(now: number): void {
    for (const denied of this.#kinds.values()) {
      for (const [target, { until }] of denied) {
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

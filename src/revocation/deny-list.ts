/** The live revocations by the claims of tokens, so that a check is a few lookups. */
import { DeniedTargets } from "./denied-targets.ts";
import { REVOCATION_KINDS, type RevocationKind } from "./kinds.ts";

/** The claims of a token by which it can be revoked. */
export interface RevocableToken {
  readonly credentialId: string;
  readonly principalId: string;
  readonly tenantId: string;
  readonly jti: string;
  readonly kid: string;
  /** Seconds of Unix time. */
  readonly issuedAt: number;
  /** `x5t#S256` of the certificate that the token is bound to. */
  readonly certificateThumbprint: string | undefined;
}

/** The denial of a tenant, which can be lifted. */
interface TenantDenial {
  /** End of the denial, in Unix milliseconds of the database's clock. */
  until: number;
  /** When it was published, by the database's clock; infinite until an answer confirms the notification. */
  atMs: number;
  /** Tokens issued before this second are denied. Infinite unless the revocation was lifted. */
  issuedBefore: number;
}

/** Returns the `x5t#S256` of a certificate from its SHA-256 in hexadecimal. */
export function x5tOf(thumbprint: string): string {
  return Buffer.from(thumbprint, "hex").toString("base64url");
}

/** Converts a target to its form in tokens: certificates are revoked in hexadecimal, but tokens use base64url. */
function asTokensSay(kind: RevocationKind, target: string): string {
  return kind === "cert" ? x5tOf(target) : target;
}

type Forever = Exclude<RevocationKind, "tenant">;

export class DenyList {
  readonly #tenants = new Map<string, TenantDenial>();
  readonly #kinds = new Map<Forever, DeniedTargets>(
    REVOCATION_KINDS.filter((kind) => kind !== "tenant").map((kind) => [kind, new DeniedTargets()]),
  );
  readonly #credentials = this.#of("credential");
  readonly #principals = this.#of("principal");
  readonly #tokens = this.#of("jti");
  readonly #keys = this.#of("kid");
  readonly #certificates = this.#of("cert");

  #of(kind: Forever): DeniedTargets {
    return this.#kinds.get(kind) as DeniedTargets;
  }

  /**
   * Denies a target until the given instant of the database's clock, in Unix milliseconds.
   *
   * @param atMs when it was revoked, by the database's clock; infinite if unknown
   */
  add(kind: RevocationKind, target: string, until: number, atMs = Infinity): void {
    if (kind !== "tenant") {
      this.#of(kind).add(asTokensSay(kind, target), until);
      return;
    }
    const known = this.#tenants.get(target);
    if (known !== undefined && known.issuedBefore < Infinity && atMs <= known.atMs) {
      // The lifted revocation was read again.
      return;
    }
    // If only a notification was seen so far, the answer now supplies the instant.
    const at = known === undefined || known.atMs === Infinity ? atMs : Math.max(atMs, known.atMs);
    this.#tenants.set(target, {
      until: Math.max(until, known?.until ?? 0),
      atMs: at,
      issuedBefore: Infinity,
    });
  }

  /** Lifts a tenant's revocation published before `atMs`. Tokens issued before `issuedBefore` stay denied. */
  liftTenant(target: string, atMs: number, issuedBefore: number): void {
    const known = this.#tenants.get(target);
    if (known !== undefined && known.atMs <= atMs) {
      this.#tenants.set(target, { until: known.until, atMs, issuedBefore });
    }
  }

  /** Takes over all but the tenants of another list, which must not be used afterwards. */
  absorb(other: DenyList): void {
    for (const [kind, denied] of this.#kinds) {
      denied.absorb(other.#of(kind));
    }
  }

  /** Whether a token is revoked by any of its six targets. Entries count until `prune` removes them. */
  denies(token: RevocableToken): boolean {
    return this.#deniesTenant(token) || this.#deniesForEver(token);
  }

  /** Returns the second of Unix time from which such a token can be issued: 0 for now, infinity for never. */
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

  /** Removes ended entries; of large kinds, a part at each call. */
  prune(now: number): void {
    for (const denied of this.#kinds.values()) {
      denied.prune(now);
    }
    for (const [target, { until }] of this.#tenants) {
      if (until <= now) {
        this.#tenants.delete(target);
      }
    }
  }

  get size(): number {
    return [...this.#kinds.values()].reduce((sum, { size }) => sum + size, this.#tenants.size);
  }

  /** Bytes of the arrays. */
  get bytes(): number {
    return [...this.#kinds.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }
}

/**
 * Sessions of operators' browsers. A session belongs to the token or certificate that signed in, and ends with it. Only
 * its hash is stored. Starting one, ending one and viewing a tenant are entries of the compliance log.
 */
import { appendEntry } from "#compliance/append-entry.ts";
import type { ComplianceEntry, EntryServices } from "#compliance/entry.ts";
import type { Pool } from "#database/pool.ts";
import { findTenant } from "#database/repositories/tenants.ts";
import {
  deleteOperatorSession,
  findOperatorSession,
  insertOperatorSession,
  setViewedTenant,
  type StoredOperatorSession,
} from "#database/repositories/tokens/operator-sessions.ts";
import { transaction } from "#database/transaction.ts";
import { found } from "#domain/errors.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import { operatorPermissions } from "#domain/operator-roles.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import type { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import { digest, type OperatorAuthenticator } from "./authenticate-operator.ts";
import { BOOTSTRAP_OPERATOR, operatorActor } from "./operator-identity.ts";

/** Life of a session, used or not, in milliseconds. */
const SESSION_LIFE_MS = 3_600_000;
const SESSIONS_MAX = 20;
const SECRET_BYTES = 32;
const SECRET_FORM = /^[A-Za-z0-9_-]{43}$/;

export interface OperatorSessionServices extends EntryServices {
  /** Role signet_operator. */
  readonly pool: Pool;
  readonly authenticator: Pick<OperatorAuthenticator, "byCertificate" | "isBootstrap">;
  readonly lookups: FruitlessLookups;
}

/** How an operator has signed in. */
export interface OperatorSignIn {
  readonly identity: OperatorIdentity;
  /** Id of the token; undefined for a certificate and for the bootstrap token. */
  readonly tokenId: string | undefined;
  /** The presented token; undefined for a certificate. */
  readonly token: string | undefined;
  readonly certificate: ClientCertificate | undefined;
}

/** An open session. */
export interface OperatorSession {
  readonly hash: Buffer;
  readonly identity: OperatorIdentity;
  /** Name of the operator. */
  readonly name: string;
  /** The tenant that it views; undefined on the operators' own pages. */
  readonly viewed: { readonly id: string; readonly name: string } | undefined;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

function sessionOf(stored: StoredOperatorSession): OperatorSession {
  const { operator_id: id, role, viewed } = stored;
  return {
    hash: stored.hash,
    identity: role === null ? BOOTSTRAP_OPERATOR : { id, permissions: operatorPermissions([role]) },
    name: stored.operator_name ?? id,
    viewed: viewed === null ? undefined : { id: viewed, name: stored.viewed_name ?? viewed },
    createdAt: stored.created_at,
    expiresAt: stored.expires_at,
  };
}

export class OperatorSessions {
  readonly #services: OperatorSessionServices;

  constructor(services: OperatorSessionServices) {
    this.#services = services;
  }

  /** Opens a session and returns the browser's secret. */
  async open({ identity, tokenId, token, certificate }: OperatorSignIn, requestId: string): Promise<string> {
    const { pool, clock, randomBytes } = this.#services;
    const secret = Buffer.from(randomBytes(SECRET_BYTES)).toString("base64url");
    const createdAt = new Date(clock.now());
    const session = {
      hash: digest(secret),
      operator_id: identity.id,
      token_id: tokenId ?? null,
      certificate: token === undefined ? (certificate?.thumbprint ?? null) : null,
      bootstrap_hash: token !== undefined && tokenId === undefined ? digest(token) : null,
      created_at: createdAt,
      expires_at: new Date(createdAt.getTime() + SESSION_LIFE_MS),
    };
    await transaction(pool, async (db) => {
      await insertOperatorSession(db, session, SESSIONS_MAX);
      const by = token === undefined ? "certificate" : "token";
      await appendEntry(db, this.#entry("operator.signed_in", identity, requestId, { by }), this.#services);
    });
    return secret;
  }

  /**
   * Returns a browser's session, unless its operator, token or certificate is revoked or expired.
   *
   * @param certificate what the connection presents; null to leave the check out, for a stream whose request passed it
   * @throws SignetError RATE_LIMITED if the address has tried too many unknown sessions
   */
  async find(
    secret: string | undefined,
    address: string,
    certificate: ClientCertificate | undefined | null,
  ): Promise<OperatorSession | undefined> {
    if (secret === undefined || !SECRET_FORM.test(secret)) {
      return undefined;
    }
    const { pool, clock, lookups } = this.#services;
    const now = new Date(clock.now());
    const stored = await lookups.find(
      address,
      async () => await findOperatorSession(pool, digest(secret), now),
    );
    if (stored === undefined) {
      return undefined;
    }
    return (await this.#isValid(stored, certificate)) ? sessionOf(stored) : undefined;
  }

  /** Whether the token or certificate that signed in is still the operator's. */
  async #isValid(
    { bootstrap_hash: bootstrapHash, certificate: signedIn, operator_id: operatorId }: StoredOperatorSession,
    certificate: ClientCertificate | undefined | null,
  ): Promise<boolean> {
    const { authenticator } = this.#services;
    if (bootstrapHash !== null) {
      return authenticator.isBootstrap(bootstrapHash);
    }
    if (signedIn === null || certificate === null) {
      return true;
    }
    if (certificate?.thumbprint !== signedIn) {
      return false;
    }
    const presented = await authenticator.byCertificate(certificate);
    return "identity" in presented && presented.identity.id === operatorId;
  }

  /** Begins to view a tenant, read-only. The tenant sees the entry. @throws SignetError NOT_FOUND */
  async view({ hash, identity }: OperatorSession, tenantId: string, requestId: string): Promise<void> {
    await transaction(this.#services.pool, async (db) => {
      found(await findTenant(db, tenantId), "tenant");
      await setViewedTenant(db, hash, tenantId);
      const entry = this.#entry("tenant.viewed", identity, requestId, { mode: "read" });
      await appendEntry(db, { ...entry, tenant: tenantId, target: tenantId }, this.#services);
    });
  }

  /** Returns to the operators' own pages. */
  async leave({ hash }: OperatorSession): Promise<void> {
    await setViewedTenant(this.#services.pool, hash, null);
  }

  async end({ hash, identity }: OperatorSession, requestId: string): Promise<void> {
    await transaction(this.#services.pool, async (db) => {
      await deleteOperatorSession(db, hash);
      await appendEntry(db, this.#entry("operator.session_ended", identity, requestId, {}), this.#services);
    });
  }

  #entry(
    type: ComplianceEntry["type"],
    { id }: OperatorIdentity,
    requestId: string,
    details: Readonly<Record<string, string>>,
  ): ComplianceEntry {
    return { type, actor: operatorActor(id), tenant: null, target: id, requestId, details };
  }
}

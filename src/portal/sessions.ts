/**
 * Signing in to the portal: a one-time link, minted over the API, opens a session in a browser. Link and session belong to
 * the credential whose token minted the link, and never hold more scopes than that token. Only hashes are kept.
 */
import { createHash } from "node:crypto";
import { appendEntry, type By } from "../compliance/append-entry.ts";
import type { Pool } from "../database/pool.ts";
import {
  consumePortalLink,
  countPortalRows,
  endPortalSession,
  findPortalSession,
  insertPortalRow,
  listPortalSessions,
  type OpenSession,
  type PortalGrant,
  type PortalSession,
} from "../database/repositories/portal-sessions.ts";
import { tenantTransaction } from "../database/transaction.ts";
import type { Clock } from "../domain/clock.ts";
import { idPattern, type RandomBytes } from "../domain/ids.ts";
import { SignetError } from "../errors.ts";
import type { Identity } from "../oauth/verify-access-token.ts";
import type { FruitlessLookups } from "../rate-limits/fruitless-lookups.ts";

/** The scope that mints links; no session has it. */
export const SIGN_IN_SCOPE = "portal:sign_in";
/** Seconds. */
export const LINK_LIFE_MAX = 900;
/** A working day: used or not, a session ends then. */
const SESSION_LIFE_MS = 28_800_000;
const LINKS_MAX = 100;
const SESSIONS_MAX = 50;
const SECRET_BYTES = 32;
/** The tenant's id, which row-level security asks for, and 256 random bits. */
const PORTAL_SECRET = `${idPattern("tenant").slice(0, -1)}\\.[A-Za-z0-9_-]{43}$`;
const SECRET_FORM = new RegExp(PORTAL_SECRET);

export interface PortalSessionServices {
  /** signet_api */
  readonly pool: Pool;
  readonly lookups: FruitlessLookups;
  /** Whether what an identity stands for is not revoked. */
  readonly isAdmitted: (identity: Identity) => Promise<boolean>;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/** A session, and the identity that its calls are made with. */
export interface SignedIn {
  readonly session: PortalSession;
  readonly identity: Identity;
  readonly hash: Buffer;
}

/** What a browser is given. */
export interface Issued {
  readonly secret: string;
  readonly expiresAt: Date;
}

function hashOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

function tenantOf(secret: string): string {
  return secret.slice(0, secret.indexOf("."));
}

function linkRefused(): SignetError {
  return new SignetError("TOKEN_INVALID", {
    detail: "This sign-in link was used before, is over, or was never made. Ask for a new one.",
  });
}

export class PortalSessions {
  readonly #services: PortalSessionServices;

  constructor(services: PortalSessionServices) {
    this.#services = services;
  }

  #newSecret(tenantId: string): string {
    return `${tenantId}.${Buffer.from(this.#services.randomBytes(SECRET_BYTES)).toString("base64url")}`;
  }

  /** @throws SignetError LIMIT_EXCEEDED with 100 open links of the credential */
  async mint(
    identity: Identity,
    { scopes, lifeSeconds }: { readonly scopes: readonly string[]; readonly lifeSeconds: number },
    by: By,
  ): Promise<Issued> {
    const { pool, clock } = this.#services;
    const { tenantId, credentialId } = identity;
    const now = new Date(clock.now());
    const expiresAt = new Date(now.getTime() + lifeSeconds * 1_000);
    const secret = this.#newSecret(tenantId);
    const grant = { ...identity, scopes: scopes.filter((scope) => scope !== SIGN_IN_SCOPE) };
    await tenantTransaction(pool, tenantId, async (db) => {
      if ((await countPortalRows(db, "portal_links", { tenantId, credentialId, now })) >= LINKS_MAX) {
        throw new SignetError("LIMIT_EXCEEDED", {
          detail: `A credential has at most ${LINKS_MAX} sign-in links that are not used or over.`,
        });
      }
      await insertPortalRow(db, "portal_links", {
        ...grant,
        hash: hashOf(secret),
        createdAt: now,
        expiresAt,
      });
      await appendEntry(
        db,
        {
          ...by,
          type: "portal.link_created",
          tenant: tenantId,
          target: credentialId,
          details: { scopes: grant.scopes },
        },
        this.#services,
      );
    });
    return { secret, expiresAt };
  }

  /**
   * Takes the link out of use and opens a session.
   *
   * @throws SignetError TOKEN_INVALID for a link that is none, was used or is over; LIMIT_EXCEEDED with 50 open sessions;
   *   RATE_LIMITED when too many links from the address were none
   */
  async open(link: string, by: { readonly requestId: string; readonly address: string }): Promise<Issued> {
    if (!SECRET_FORM.test(link)) {
      throw linkRefused();
    }
    const { lookups } = this.#services;
    await lookups.admit(by.address);
    try {
      return await this.#open(link, by.requestId);
    } catch (error) {
      if (error instanceof SignetError && error.code === "TOKEN_INVALID") {
        await lookups.note(by.address);
      }
      throw error;
    }
  }

  async #open(link: string, requestId: string): Promise<Issued> {
    const { pool, clock } = this.#services;
    const tenantId = tenantOf(link);
    const now = new Date(clock.now());
    const secret = this.#newSecret(tenantId);
    const hash = hashOf(secret);
    const expiresAt = new Date(now.getTime() + SESSION_LIFE_MS);
    await tenantTransaction(pool, tenantId, async (db) => {
      const grant = await consumePortalLink(db, { tenantId, hash: hashOf(link), now });
      if (grant === undefined) {
        throw linkRefused();
      }
      const { credentialId } = grant;
      if ((await countPortalRows(db, "portal_sessions", { tenantId, credentialId, now })) >= SESSIONS_MAX) {
        throw new SignetError("LIMIT_EXCEEDED", {
          detail: `A credential has at most ${SESSIONS_MAX} open sessions: end one of them.`,
        });
      }
      await insertPortalRow(db, "portal_sessions", { ...grant, hash, createdAt: now, expiresAt });
      const session = await findPortalSession(db, { tenantId, hash, now });
      if (session === undefined || !(await this.#services.isAdmitted(identityOf(session)))) {
        throw linkRefused();
      }
      await this.#log(db, "portal.signed_in", grant, { actor: `credential:${credentialId}`, requestId });
    });
    return { secret, expiresAt };
  }

  /**
   * The session of a browser, while its credential may still do what it does.
   *
   * @throws SignetError RATE_LIMITED when too many sessions from the address were none
   */
  async find(secret: string | undefined, address: string): Promise<SignedIn | undefined> {
    if (secret === undefined || !SECRET_FORM.test(secret)) {
      return undefined;
    }
    const { pool, clock, isAdmitted, lookups } = this.#services;
    await lookups.admit(address);
    const tenantId = tenantOf(secret);
    const hash = hashOf(secret);
    const now = new Date(clock.now());
    const session = await tenantTransaction(
      pool,
      tenantId,
      async (db) => await findPortalSession(db, { tenantId, hash, now }),
    );
    if (session === undefined) {
      await lookups.note(address);
      return undefined;
    }
    const identity = identityOf(session);
    return (await isAdmitted(identity)) ? { session, identity, hash } : undefined;
  }

  /** Whether the credential of a session is not revoked. @throws SignetError REVOCATION_STALE when nobody can say */
  async isAdmitted(identity: Identity): Promise<boolean> {
    return await this.#services.isAdmitted(identity);
  }

  /** The open sessions of the credential, newest first. */
  async list({ tenantId, credentialId }: Identity): Promise<OpenSession[]> {
    const now = new Date(this.#services.clock.now());
    return await tenantTransaction(
      this.#services.pool,
      tenantId,
      async (db) => await listPortalSessions(db, { tenantId, credentialId, now, limit: SESSIONS_MAX }),
    );
  }

  /** Ends a session of the credential; one that is over already stays so. */
  async end(identity: Identity, hash: Buffer, by: By): Promise<void> {
    const { tenantId, credentialId } = identity;
    await tenantTransaction(this.#services.pool, tenantId, async (db) => {
      if (await endPortalSession(db, { tenantId, credentialId, hash })) {
        await this.#log(db, "portal.session_ended", identity, by);
      }
    });
  }

  async #log(
    db: Parameters<typeof appendEntry>[0],
    type: "portal.session_ended" | "portal.signed_in",
    { tenantId: tenant, credentialId: target }: Pick<PortalGrant, "tenantId" | "credentialId">,
    by: By,
  ): Promise<void> {
    await appendEntry(db, { ...by, type, tenant, target }, this.#services);
  }
}

/** A session's calls are made as the credential that its link came from, and in the token's name: what ends that ends this. */
function identityOf(session: PortalSession): Identity {
  const { tenantId, principalId, credentialId, clientId, region, scopes } = session;
  const { jti, kid, issuedAt, certificateThumbprint } = session;
  return {
    tenantId,
    principalId,
    credentialId,
    clientId,
    region,
    scopes: new Set(scopes),
    jti,
    kid,
    issuedAt,
    certificateThumbprint,
  };
}

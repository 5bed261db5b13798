/**
 * Sign-in to the portal. A one-time link, created over the API, opens a browser session. Link and session belong to the
 * credential whose token created the link, and never have more scopes than that token. Only their hashes are stored.
 */
import { createHash } from "node:crypto";
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import {
  comparePortalSession,
  consumePortalLink,
  endPortalSession,
  findPortalSession,
  hasPortalLink,
  insertPortalRow,
  listPortalSessions,
  makeRoomForPortalRow,
  type OpenSession,
  type PortalGrant,
  type PortalSession,
} from "#database/repositories/tokens/portal-sessions.ts";
import { tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import { idPattern, type RandomBytes } from "#domain/ids.ts";
import { SignetError } from "#domain/errors.ts";
import type { Identity } from "#domain/identity.ts";
import type { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";

/** The scope for creating links. No session has it. */
export const SIGN_IN_SCOPE = "portal:sign_in";
/** Scopes of routes that only the home cell serves. */
const HOME_SCOPES = /^(credentials|compliance|ssf):/;
/** Longest life of a link, in seconds. */
export const LINK_LIFE_MAX = 900;
/** Life of a session, used or not: a working day. */
const SESSION_LIFE_MS = 28_800_000;
const LINKS_MAX = 100;
const SESSIONS_MAX = 50;
const SECRET_BYTES = 32;
const USER_AGENT_MAX = 512;
/** Pattern of links and sessions: the tenant's id, required by row-level security, and 256 random bits. */
const PORTAL_SECRET = `${idPattern("tenant").slice(0, -1)}\\.[A-Za-z0-9_-]{43}$`;
const SECRET_FORM = new RegExp(PORTAL_SECRET);

export interface PortalSessionServices {
  /** signet_api */
  readonly pool: Pool;
  readonly lookups: FruitlessLookups;
  /** Whether an identity is not revoked. */
  readonly isAdmitted: (identity: Identity) => Promise<boolean>;
  /** Set in a cell that is not the home cell: principals are not there, and sessions have no scopes of its routes. */
  readonly away?: boolean;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/** A session, with the identity of its calls. */
export interface SignedIn {
  readonly session: PortalSession;
  readonly identity: Identity;
  readonly hash: Buffer;
}

/** A sign-in from a browser. */
export interface SignInBy {
  readonly requestId: string;
  readonly address: string;
  /** The browser's User-Agent header. */
  readonly userAgent: string | undefined;
  /** The browser's previous session, which the new one replaces. */
  readonly replaces: string | undefined;
}

/** A secret issued to a browser. */
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
    detail: "This sign-in link was already used, has expired, or is invalid. Request a new one.",
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

  /** Creates a link. If the credential then has more than 100 open links, the oldest becomes invalid. */
  async mint(
    identity: Identity,
    { scopes, lifeSeconds }: { readonly scopes: readonly string[]; readonly lifeSeconds: number },
    by: By,
  ): Promise<Issued> {
    const { pool, clock, away = false } = this.#services;
    const { tenantId, credentialId } = identity;
    const now = new Date(clock.now());
    const expiresAt = new Date(now.getTime() + lifeSeconds * 1_000);
    const secret = this.#newSecret(tenantId);
    const held = scopes.filter((scope) => scope !== SIGN_IN_SCOPE && !(away && HOME_SCOPES.test(scope)));
    const grant = { ...identity, scopes: held };
    await tenantTransaction(pool, tenantId, async (db) => {
      await makeRoomForPortalRow(db, "portal_links", { tenantId, credentialId, now, max: LINKS_MAX });
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
   * Consumes the link and opens a session, which replaces the browser's own session. If the credential then has more
   * than 50 open sessions, the oldest ends.
   *
   * @throws SignetError TOKEN_INVALID for an unknown, used or expired link; RATE_LIMITED if the address has tried too
   *   many unknown links
   */
  async open(link: string, by: SignInBy): Promise<Issued> {
    if (!SECRET_FORM.test(link)) {
      throw linkRefused();
    }
    const issued = await this.#services.lookups.find(by.address, async () => {
      try {
        return await this.#open(link, by);
      } catch (error) {
        if (error instanceof SignetError && error.code === "TOKEN_INVALID") {
          return undefined;
        }
        throw error;
      }
    });
    if (issued === undefined) {
      throw linkRefused();
    }
    const { replaces } = by;
    if (replaces !== undefined && SECRET_FORM.test(replaces) && tenantOf(replaces) !== tenantOf(link)) {
      // Row-level security separates the tenants, so another tenant's session needs its own transaction.
      const other = tenantOf(replaces);
      await tenantTransaction(
        this.#services.pool,
        other,
        async (db) => await this.#endReplaced(db, other, by),
      );
    }
    return issued;
  }

  /**
   * Whether a link can open a session.
   *
   * @throws SignetError RATE_LIMITED if the address has tried too many unknown links
   */
  async isOpen(link: string, address: string): Promise<boolean> {
    if (!SECRET_FORM.test(link)) {
      return false;
    }
    const of = { tenantId: tenantOf(link), hash: hashOf(link), now: new Date(this.#services.clock.now()) };
    const { pool, lookups } = this.#services;
    const found = await lookups.find(
      address,
      async () =>
        await tenantTransaction(pool, of.tenantId, async (db) =>
          (await hasPortalLink(db, of)) ? true : undefined,
        ),
    );
    return found === true;
  }

  async #open(link: string, by: SignInBy): Promise<Issued> {
    const { pool, clock, away = false } = this.#services;
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
      const { requestId } = by;
      await this.#endReplaced(db, tenantId, by);
      const of = { tenantId, credentialId, now, max: SESSIONS_MAX };
      for (let ended = await makeRoomForPortalRow(db, "portal_sessions", of); ended > 0; ended -= 1) {
        await this.#log(db, "portal.session_ended", grant, { actor: "system:portal", requestId });
      }
      const from = { address: by.address, user_agent: by.userAgent?.slice(0, USER_AGENT_MAX) ?? null };
      await insertPortalRow(db, "portal_sessions", { ...grant, hash, createdAt: now, expiresAt, from });
      const session = await findPortalSession(db, { tenantId, hash, now, away });
      if (session === undefined || !(await this.#services.isAdmitted(identityOf(session)))) {
        throw linkRefused();
      }
      await this.#log(db, "portal.signed_in", grant, { actor: `credential:${credentialId}`, requestId });
    });
    return { secret, expiresAt };
  }

  /** Ends the browser's previous session, if it belongs to the tenant. */
  async #endReplaced(db: Queryable, tenantId: string, { replaces, requestId }: SignInBy): Promise<void> {
    if (replaces === undefined || !SECRET_FORM.test(replaces) || tenantOf(replaces) !== tenantId) {
      return;
    }
    const ended = await endPortalSession(db, { tenantId, hash: hashOf(replaces) });
    if (ended !== undefined) {
      const actor = `credential:${ended.credentialId}` as const;
      await this.#log(db, "portal.session_ended", ended, { actor, requestId });
    }
  }

  /**
   * Returns the session of a browser, unless its credential was revoked.
   *
   * @throws SignetError RATE_LIMITED if the address has tried too many unknown sessions
   */
  async find(secret: string | undefined, address: string): Promise<SignedIn | undefined> {
    if (secret === undefined || !SECRET_FORM.test(secret)) {
      return undefined;
    }
    const { pool, clock, isAdmitted, lookups, away = false } = this.#services;
    const tenantId = tenantOf(secret);
    const hash = hashOf(secret);
    const now = new Date(clock.now());
    const session = await lookups.find(
      address,
      async () =>
        await tenantTransaction(
          pool,
          tenantId,
          async (db) => await findPortalSession(db, { tenantId, hash, now, away }),
        ),
    );
    if (session === undefined) {
      return undefined;
    }
    const identity = identityOf(session);
    return (await isAdmitted(identity)) ? { session, identity, hash } : undefined;
  }

  /** Whether the credential of a session is not revoked. @throws SignetError REVOCATION_STALE if that is unknown */
  async isAdmitted(identity: Identity): Promise<boolean> {
    return await this.#services.isAdmitted(identity);
  }

  /** Returns the open sessions of the session's credential, newest first. */
  async list({ identity: { tenantId }, hash: asking }: SignedIn): Promise<OpenSession[]> {
    const now = new Date(this.#services.clock.now());
    return await tenantTransaction(
      this.#services.pool,
      tenantId,
      async (db) => await listPortalSessions(db, { tenantId, asking, now, limit: SESSIONS_MAX }),
    );
  }

  /**
   * Ends a session of the same credential. Does nothing if it has already ended.
   *
   * @throws SignetError SCOPE_VIOLATION if its scopes are wider than those of the calling session
   */
  async end({ identity: { tenantId }, hash: asking }: SignedIn, hash: Buffer, by: By): Promise<void> {
    await tenantTransaction(this.#services.pool, tenantId, async (db) => {
      const compared = await comparePortalSession(db, { tenantId, asking, hash });
      if (compared === "wider") {
        throw new SignetError("SCOPE_VIOLATION", {
          detail: "A session can end only sessions whose scopes are no wider than its own.",
        });
      }
      const ended = compared && (await endPortalSession(db, { tenantId, hash }));
      if (ended !== undefined) {
        await this.#log(db, "portal.session_ended", ended, by);
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

/** Returns the identity of a session's calls: the link's credential and token. Revoking either ends the session. */
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
    isSession: true,
  };
}

/** `POST /v1/credentials`: a tenant creates a credential, or replaces one. */
import type { Static } from "typebox";
import { appendEntry } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Pool, PoolClient } from "#database/pool.ts";
import {
  type CredentialRow,
  findTenantCredential,
  hasCredentials,
  replaceCredential,
} from "#database/repositories/tokens/credentials.ts";
import { findTenantPrincipal, type PrincipalRow } from "#database/repositories/tokens/principals.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { SIGN_IN_SCOPE } from "#tokens/portal-sessions.ts";
import type { RotationRules } from "#domain/secret-version.ts";
import { found, SignetError, validationFailed } from "#domain/errors.ts";
import { scopeViolation } from "#http/bearer-errors.ts";
import type { Identity } from "#domain/identity.ts";
import {
  type MadeCredential,
  makeCredential,
  type NewCredential,
  type NewCredentialServices,
  noticeCreated,
} from "./new-credential.ts";
import { type Answered, answerOnce, type RepeatableRequest } from "#http/repeatable.ts";

const DEFAULT_OVERLAP_SECONDS = 86_400;

export interface TenantCredentialServices
  extends
    Pick<NewCredentialServices, "pepper" | "certificatesRequired" | "assertionAlgorithms">,
    EntryServices {
  readonly rules: RotationRules;
  /** Pool with the role signet_api. */
  readonly pool: Pool;
  /** Returns the maximum number of unrevoked credentials per principal. */
  readonly credentialsMax: (tenantId: string) => Promise<number>;
}

/** The tenant's request. */
export interface TenantCredentialRequest {
  readonly principalId: string | undefined;
  /** The new credential. By default it has the certificate of the replaced credential. */
  readonly credential: Static<typeof NewCredential>;
  readonly replaces: string | undefined;
  /** How long the replaced credential stays valid, in seconds. */
  readonly overlapSeconds: number | undefined;
  readonly identity: Identity;
  readonly requestId: string;
  /** The request, if it has an Idempotency-Key. */
  readonly repeatable: RepeatableRequest | undefined;
}

/**
 * Creates the credential with its entries in the compliance log, or returns the stored response of a repeated request.
 * Rejects with a SignetError.
 */
export async function createTenantCredential<Answer>(
  request: TenantCredentialRequest,
  { pool, ...services }: TenantCredentialServices,
  present: (made: MadeCredential) => Answer,
): Promise<Answered<Answer>> {
  if (request.overlapSeconds !== undefined && request.replaces === undefined) {
    throw validationFailed([
      {
        pointer: "/overlap_seconds",
        code: "not_allowed",
        detail: "is only allowed with replaces",
      },
    ]);
  }
  return await tenantTransaction(pool, request.identity.tenantId, async (db) => {
    const replaced = await findReplaced(db, request);
    const principal = await findOwner(db, request, replaced);
    requireScopesOf(principal, request.identity);
    return await answerOnce(db, request.repeatable, services, async () => {
      await requireRoom(db, principal, await services.credentialsMax(principal.tenant_id));
      const issued = await makeCredential(principal, withBinding(request, replaced), { ...services, db });
      await endReplaced(db, request, { issued, replaced, nowMs: services.clock.now() });
      await record(db, request, { issued, services });
      return present(issued);
    });
  });
}

async function findReplaced(
  db: PoolClient,
  { replaces, identity }: TenantCredentialRequest,
): Promise<CredentialRow | undefined> {
  if (replaces === undefined) {
    return undefined;
  }
  return found(await findTenantCredential(db, identity.tenantId, replaces), "credential");
}

async function findOwner(
  db: PoolClient,
  { principalId, identity }: TenantCredentialRequest,
  replaced: CredentialRow | undefined,
): Promise<PrincipalRow> {
  const owner = principalId ?? replaced?.principal_id ?? identity.principalId;
  if (replaced !== undefined && replaced.principal_id !== owner) {
    throw validationFailed([
      {
        pointer: "/principal_id",
        code: "mismatch",
        detail: "is not the principal of the replaced credential",
      },
    ]);
  }
  return found(await findTenantPrincipal(db, identity.tenantId, owner), "principal");
}

/**
 * Checks that the caller has all scopes of the principal, since the new credential grants all of them. No session of the
 * portal has the scope for signing in, so it may lack that one.
 */
function requireScopesOf({ scopes }: PrincipalRow, identity: Identity): void {
  const violation = scopeViolation({
    operation: "POST /v1/credentials",
    required: identity.isSession === true ? scopes.filter((scope) => scope !== SIGN_IN_SCOPE) : scopes,
    granted: identity.scopes,
    detail: "The principal has scopes that the token does not have.",
  });
  if (violation !== undefined) {
    throw violation;
  }
}

async function requireRoom(db: PoolClient, { id }: PrincipalRow, max: number): Promise<void> {
  if (await hasCredentials(db, id, max)) {
    throw new SignetError("LIMIT_EXCEEDED", {
      detail: `A principal of the tenant may have at most ${max} credentials.`,
    });
  }
}

function withBinding(
  { credential }: TenantCredentialRequest,
  replaced: CredentialRow | undefined,
): Static<typeof NewCredential> {
  return {
    ...(replaced === undefined || replaced.san_uri === null ? {} : { san_uri: replaced.san_uri }),
    ...(replaced === undefined
      ? {}
      : { name: replaced.name, certificate_thumbprints: replaced.certificate_thumbprints }),
    ...credential,
  };
}

async function endReplaced(
  db: PoolClient,
  { overlapSeconds = DEFAULT_OVERLAP_SECONDS, identity }: TenantCredentialRequest,
  made: {
    readonly issued: MadeCredential;
    readonly replaced: CredentialRow | undefined;
    readonly nowMs: number;
  },
): Promise<void> {
  if (made.replaced === undefined) {
    return;
  }
  const end = {
    id: made.replaced.id,
    by: made.issued.row.id,
    endsAt: made.nowMs + overlapSeconds * 1_000,
  };
  if (!(await replaceCredential(db, identity.tenantId, end))) {
    throw new SignetError("INVALID_STATE", {
      detail: "The credential is revoked or has been replaced already.",
    });
  }
}

async function record(
  db: PoolClient,
  { replaces, identity, requestId }: TenantCredentialRequest,
  { issued: { row }, services }: { readonly issued: MadeCredential; readonly services: EntryServices },
): Promise<void> {
  const by = {
    actor: `credential:${identity.credentialId}`,
    tenant: identity.tenantId,
    requestId,
  } as const;
  const details = {
    principal_id: row.principal_id,
    client_id: row.client_id,
    rotation_mode: row.rotation_mode,
    san_uri: row.san_uri,
    certificate_thumbprints: row.certificate_thumbprints,
  };
  await noticeCreated(db, row, by);
  await appendEntry(db, { ...by, type: "credential.created", target: row.id, details }, services);
  if (replaces !== undefined) {
    const replacement = { replaced_by: row.id };
    await appendEntry(
      db,
      { ...by, type: "credential.replaced", target: replaces, details: replacement },
      services,
    );
  }
}

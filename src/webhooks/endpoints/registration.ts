/** Registers an endpoint: limits, secret, row. Repeatable with an Idempotency-Key. */
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import { findDataKey } from "#database/repositories/data-keys.ts";
import {
  countEndpoints,
  type Endpoint,
  findEndpoint,
  insertEndpoint,
  loadFirstSecret,
  type NewEndpoint,
} from "#database/repositories/endpoints/endpoints.ts";
import { principalKey, takeIdempotencyKey, type TakenKey } from "#database/repositories/idempotency.ts";
import type { EndpointSettings } from "#domain/endpoint-settings.ts";
import { IDEMPOTENCY_MS } from "#domain/idempotency.ts";
import type { Clock } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { SignetError } from "#domain/errors.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { secretAad, secretFingerprint } from "#crypto/endpoint-secret.ts";
import { sealAuthentication, type SettingsInput } from "./settings.ts";

const ROUTE = "POST /v1/webhooks/endpoints";

export interface Registration extends SettingsInput {
  readonly idempotency: {
    readonly principalId: string;
    readonly key: string;
    readonly bodyHash: Buffer;
  } | null;
}

export interface Registered {
  readonly endpoint: Endpoint;
  readonly secret: string;
  /** Whether this is the result of an earlier request with the same Idempotency-Key. */
  readonly replayed: boolean;
}

interface RegistrationServices {
  readonly keyring: Keyring;
  /** Returns the maximum number of endpoints of a tenant. */
  readonly endpointsMax: (tenantId: string) => Promise<number>;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

interface TenantRegistration
  extends EndpointSettings, Pick<NewEndpoint, "tenantId" | "streamId">, Pick<Registration, "idempotency"> {
  /** The secret part of its authentication. */
  readonly authenticationSecret: string | null | undefined;
}

/** Runs inside the tenant's transaction. The URL must have been checked. */
export async function registerEndpoint(
  db: Queryable,
  registration: TenantRegistration,
  { keyring, endpointsMax, clock, randomBytes }: RegistrationServices,
): Promise<Registered> {
  const { tenantId, idempotency } = registration;
  const now = new Date(clock.now());
  const id = newId("endpoint", now.getTime(), randomBytes);
  if (idempotency !== null) {
    const taken = await takeIdempotencyKey(db, {
      place: principalKey({ tenantId, principalId: idempotency.principalId }, ROUTE, idempotency.key),
      bodyHash: idempotency.bodyHash,
      resourceId: id,
      now,
      forgetBefore: new Date(now.getTime() - IDEMPOTENCY_MS),
    });
    if (taken !== undefined) {
      return await previousResult(db, registration, { keyring, taken });
    }
  }
  const max = await endpointsMax(tenantId);
  if ((await countEndpoints(db, tenantId)) >= max) {
    throw new SignetError("LIMIT_EXCEEDED", { detail: `The tenant can have at most ${max} endpoints.` });
  }
  const secret = generateSecret(randomBytes);
  const dataKey = await findDataKey(db, tenantId);
  const endpoint = await insertEndpoint(db, {
    ...registration,
    id,
    sealedSecret: await keyring.sealForTenant(dataKey, tenantId, secretAad(tenantId, id, 1), secret),
    secretFingerprint: secretFingerprint(secret),
    now,
  });
  await sealAuthentication(db, endpoint, registration.authenticationSecret, keyring);
  return { endpoint, secret, replayed: false };
}

async function previousResult(
  db: Queryable,
  { tenantId, idempotency }: TenantRegistration,
  { keyring, taken }: { keyring: Keyring; taken: TakenKey },
): Promise<Registered> {
  if (idempotency === null || !taken.bodyHash.equals(idempotency.bodyHash)) {
    throw new SignetError("IDEMPOTENCY_KEY_REUSED", {
      detail: "This Idempotency-Key was used with a different request body in the past 24 hours.",
    });
  }
  const endpoint = await findEndpoint(db, tenantId, taken.resourceId);
  const sealed = await loadFirstSecret(db, tenantId, taken.resourceId);
  if (endpoint === undefined || sealed === undefined) {
    throw new SignetError("CONFLICT", { detail: "The endpoint that this request created has been deleted." });
  }
  const dataKey = await findDataKey(db, tenantId);
  const secret = await keyring.openForTenant(dataKey, tenantId, secretAad(tenantId, endpoint.id, 1), sealed);
  return { endpoint, secret: secret.toString("utf8"), replayed: true };
}

/**
 * Rotation at the token endpoint (security decisions C). The first request after the due date creates a successor. The
 * answers carry it until its first use, which retires the previous secret. Ordinary requests have no extra cost.
 */
import type { EntryServices } from "#compliance/entry.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { Pool, PoolClient } from "#database/pool.ts";
import type {
  ClientRecord,
  SecretVersionKey,
  SecretVersionRecord,
} from "#database/repositories/tokens/clients.ts";
import { CREDENTIAL_ROTATED, insertNotices } from "#database/repositories/tokens/revocation-notices.ts";
import {
  acknowledgeSuccessor,
  findWrapped,
  insertSuccessor,
  reportDue,
  retireVersion,
} from "#database/repositories/secret-versions.ts";
import { transaction } from "#database/transaction.ts";
import { type Admission, retirementOf, type RotationRules, wantsSuccessor } from "#domain/secret-version.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { AppendRotationEntry, RotationEntry } from "./rotation-log.ts";
import type { RotationNotices } from "./rotation-notices.ts";
import { environmentOf, newClientSecret } from "./secret-format.ts";
import { type SuccessorPlace, unwrapSuccessor, wrapSuccessor } from "./successor.ts";

/** The successor in a token response (contract 4.1). Clients without support ignore it. */
export interface CredentialRotation {
  readonly credential_id: string;
  readonly version: number;
  readonly client_secret: string;
  readonly predecessor_retires_by: string;
}

/** A request that authenticated with a version's secret. */
export interface SecretUse {
  readonly client: ClientRecord;
  readonly version: SecretVersionRecord;
  readonly admission: Exclude<Admission, "refused">;
  readonly secret: string;
  /** Whether the answer may contain a secret. Over mutual TLS, only the registered certificate may receive one. */
  readonly trusted: boolean;
}

export interface RotationOptions extends EntryServices {
  /** Role signet_rotator. */
  readonly pool: Pool;
  readonly pepper: Pepper;
  readonly rules: RotationRules;
  readonly notices: RotationNotices;
  readonly append: AppendRotationEntry;
  readonly log: Logger;
}

/** Implements the rotation at the token endpoint. */
export class TokenRotationService {
  readonly #options: RotationOptions;
  /** Requests of this process for the same successor share its creation. */
  readonly #inFlight = new Map<string, Promise<string | undefined>>();

  constructor(options: RotationOptions) {
    this.#options = options;
  }

  /**
   * Advances the rotation for this request. Returns a successor to hand out, if any, and `undefined` for ordinary
   * requests. Never rejects: a failed write, for instance to a read-only database, is retried at the next request.
   */
  step(use: SecretUse): Promise<CredentialRotation | undefined> | undefined {
    const { client, version, admission } = use;
    const { notices, clock } = this.#options;
    if (admission !== "good") {
      const { credential_id: credentialId, tenant_id: tenantId } = client;
      notices.late("rescue", { credential_id: credentialId, tenant_id: tenantId, version: version.version });
    }
    return version.state === "PENDING" || wantsSuccessor(version, clock.now())
      ? this.#advance(use)
      : undefined;
  }

  async #advance(use: SecretUse): Promise<CredentialRotation | undefined> {
    const { client, version, admission } = use;
    try {
      if (version.state === "PENDING") {
        await this.#acknowledge(use);
        return undefined;
      }
      if (admission === "rescued") {
        await this.#writeRetirement(use);
      }
      return use.trusted && client.rotation_mode === "in_band" ? await this.#handOut(use) : undefined;
    } catch (error) {
      metrics.rotationsPutOff.inc();
      this.#options.log.warn(
        {
          err: error,
          tenant_id: client.tenant_id,
          credential_id: client.credential_id,
          version: version.version,
        },
        "rotation postponed until the next token request",
      );
      return undefined;
    }
  }

  async #acknowledge(use: SecretUse): Promise<void> {
    const { pool, clock, rules } = this.#options;
    const nowMs = clock.now();
    const dueAt = nowMs + rules.periodMs;
    const retireBy = dueAt + rules.maxOverlapMs;
    await transaction(pool, async (db) => {
      if (await acknowledgeSuccessor(db, { ...keyOf(use), nowMs, dueAt, retireBy })) {
        const { tenant_id, credential_id: target } = use.client;
        const actor = `credential:${target}`;
        await insertNotices(db, [
          { kind: CREDENTIAL_ROTATED, target, tenant_id, actor, at: new Date(nowMs) },
        ]);
        await this.#record(db, use, "credential.rotated", { due_at: new Date(dueAt).toISOString() });
      }
    });
  }

  /** Records the end of a version that fell out of use, so that its use over the certificate does not revive it. */
  async #writeRetirement(use: SecretUse): Promise<void> {
    const { pool, clock, rules } = this.#options;
    const retirement = retirementOf(use.version, rules, clock.now());
    if (use.version.state === "RETIRED" || retirement === undefined) {
      return;
    }
    await transaction(pool, async (db) => {
      if (await retireVersion(db, keyOf(use), retirement)) {
        await this.#record(db, use, "credential.retired", { reason: retirement.reason });
      }
    });
  }

  async #handOut(use: SecretUse): Promise<CredentialRotation | undefined> {
    const { notices, clock, rules } = this.#options;
    const { client, version } = use;
    const place = { credential_id: client.credential_id, version: version.version + 1 };
    const clientSecret = await this.#sharedSuccessor(use, place);
    if (clientSecret === undefined) {
      return undefined;
    }
    notices.delivered({ ...place, tenant_id: client.tenant_id });
    const end = version.retired_at ?? version.retire_by ?? clock.now() + rules.maxOverlapMs;
    return {
      credential_id: place.credential_id,
      version: place.version,
      client_secret: clientSecret,
      predecessor_retires_by: new Date(end).toISOString(),
    };
  }

  async #sharedSuccessor(use: SecretUse, place: SuccessorPlace): Promise<string | undefined> {
    const key = `${place.credential_id}|${place.version}`;
    const running =
      this.#inFlight.get(key) ?? this.#successorOf(use, place).finally(() => this.#inFlight.delete(key));
    this.#inFlight.set(key, running);
    return await running;
  }

  async #successorOf(use: SecretUse, place: SuccessorPlace): Promise<string | undefined> {
    const { pool, pepper } = this.#options;
    const listed = use.client.versions.find(({ version }) => version === place.version);
    let wrapped = listed?.wrapped;
    if (listed === undefined) {
      wrapped = use.version.state === "ACTIVE" ? undefined : await findWrapped(pool, place);
      wrapped = wrapped === undefined ? await this.#create(use, place) : wrapped;
    }
    return typeof wrapped === "string" ? unwrapSuccessor(place, use.secret, wrapped, pepper) : undefined;
  }

  async #create(use: SecretUse, place: SuccessorPlace): Promise<string | null | undefined> {
    const { pool, clock, pepper, randomBytes } = this.#options;
    const successor = newClientSecret(environmentOf(use.secret), randomBytes);
    const wrapped = wrapSuccessor(place, { predecessor: use.secret, successor }, pepper, randomBytes);
    const mac = pepper.mac(successor);
    return await transaction(pool, async (db) => {
      const nowMs = clock.now();
      const { tenant_id: tenantId } = use.client;
      if (
        await insertSuccessor(db, {
          ...place,
          tenant_id: tenantId,
          mac,
          mac_key_id: pepper.id,
          wrapped,
          nowMs,
        })
      ) {
        if (await reportDue(db, keyOf(use), nowMs)) {
          await this.#record(db, use, "credential.rotation_due");
        }
        await this.#record(db, use, "credential.successor_created", { successor: place.version });
        return wrapped;
      }
      return await findWrapped(db, place);
    });
  }

  async #record(
    db: PoolClient,
    { client, version }: SecretUse,
    type: RotationEntry["type"],
    details: Readonly<Record<string, string | number>> = {},
  ): Promise<void> {
    const { tenant_id: tenantId, credential_id: credentialId } = client;
    await this.#options.append(db, {
      type,
      tenantId,
      credentialId,
      details: { version: version.version, ...details },
    });
  }
}

function keyOf({ client, version }: SecretUse): SecretVersionKey {
  return { credential_id: client.credential_id, version: version.version };
}

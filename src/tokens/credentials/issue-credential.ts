/** Issues credentials. Only here does the service hold a new secret in clear. */
import type { Pepper } from "#crypto/pepper.ts";
import type { Queryable } from "#database/pool.ts";
import {
  insertCredential,
  type NewCredential,
  type VersionedCredentialRow,
} from "#database/repositories/tokens/credentials.ts";
import type { PrincipalRow } from "#database/repositories/tokens/principals.ts";
import type { Clock } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import type { RotationRules } from "#domain/secret-version.ts";
import type { CertificateBinding } from "./certificate-binding.ts";
import { newClientId, newClientSecret } from "./secret-format.ts";

export interface IssueServices {
  readonly db: Queryable;
  readonly pepper: Pepper;
  readonly rules: Pick<RotationRules, "periodMs" | "maxOverlapMs">;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

export interface IssuedCredential {
  readonly row: VersionedCredentialRow;
  /** Not stored; only its MAC is. */
  readonly clientSecret: string;
}

/** Adds a credential to a principal. Production credentials rotate (contract 8), others never do. */
export async function issueCredential(
  principal: Pick<PrincipalRow, "id" | "tenant_id" | "environment">,
  described: CertificateBinding & Pick<NewCredential, "name">,
  { db, pepper, rules, clock, randomBytes }: IssueServices,
): Promise<IssuedCredential> {
  const nowMs = clock.now();
  const rotates = principal.environment === "production";
  const dueAt = nowMs + rules.periodMs;
  const clientSecret = newClientSecret(principal.environment, randomBytes);
  const row = await insertCredential(
    db,
    {
      id: newId("credential", nowMs, randomBytes),
      tenant_id: principal.tenant_id,
      principal_id: principal.id,
      client_id: newClientId(randomBytes),
      rotation_mode: rotates ? "in_band" : "manual",
      ...described,
      nowMs: nowMs,
    },
    {
      mac: pepper.mac(clientSecret),
      mac_key_id: pepper.id,
      due_at: rotates ? dueAt : null,
      retire_by: rotates ? dueAt + rules.maxOverlapMs : null,
    },
  );
  return { row, clientSecret };
}

/** Issues credentials without a secret. The client authenticates with a certificate or its own keys. */
import type { Queryable } from "#database/pool.ts";
import type { NewCredential, VersionedCredentialRow } from "#database/repositories/tokens/credentials.ts";
import type { PrincipalRow } from "#database/repositories/tokens/principals.ts";
import {
  type ClientKeySet,
  insertWorkloadCredential,
} from "#database/repositories/tokens/workload-credentials.ts";
import type { Clock } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { validationFailed } from "#domain/errors.ts";
import { type CertificateBinding, namesCertificate } from "./certificate-binding.ts";
import { newClientId } from "./secret-format.ts";

export interface WorkloadIssueServices {
  readonly db: Queryable;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/**
 * Adds the credential.
 *
 * @throws SignetError `VALIDATION_FAILED` if there is neither a certificate nor a key
 */
export async function issueWorkloadCredential(
  principal: Pick<PrincipalRow, "id" | "tenant_id">,
  {
    described,
    jwks,
  }: {
    readonly described: CertificateBinding & Pick<NewCredential, "name">;
    readonly jwks: ClientKeySet | undefined;
  },
  { db, clock, randomBytes }: WorkloadIssueServices,
): Promise<VersionedCredentialRow> {
  if (jwks === undefined && !namesCertificate(described)) {
    throw validationFailed([
      { pointer: "", code: "required", detail: "requires san_uri, certificate_thumbprints or jwks" },
    ]);
  }
  const nowMs = clock.now();
  const credential = {
    id: newId("credential", nowMs, randomBytes),
    tenant_id: principal.tenant_id,
    principal_id: principal.id,
    client_id: newClientId(randomBytes),
    ...described,
    nowMs,
  };
  return await insertWorkloadCredential(db, credential, jwks);
}

/** Decrypts the secrets of an endpoint that sign now. */
import type { Keyring } from "#crypto/keyring.ts";
import type { EndpointTarget, StoredSecret, StoredSecrets } from "#database/repositories/stored-secrets.ts";
import type { Clock } from "#domain/clock.ts";
import { signingVersions } from "#domain/endpoint-secrets.ts";
import { secretAad, signingKeyAad } from "#crypto/endpoint-secret.ts";
import type { EndpointSecrets } from "./signer.ts";

/** The tenant's secrets do not change while it is held. */
export type SecretsOfEndpoint = StoredSecrets &
  Pick<EndpointTarget, "tenant_id" | "endpoint_id" | "data_key" | "held_at">;

export type OpenSecrets = (secrets: SecretsOfEndpoint) => Promise<EndpointSecrets>;

/**
 * Creates the function that decrypts endpoint secrets. Only the tenant's data key is cached, so a replaced secret
 * signs nothing that is loaded later.
 */
export function createSecretOpener(keyring: Keyring, clock: Clock): OpenSecrets {
  async function open(
    { tenant_id: tenantId, endpoint_id: endpointId, data_key: dataKey }: SecretsOfEndpoint,
    { version, sealed }: StoredSecret,
  ): Promise<string> {
    const aad = secretAad(tenantId, endpointId, version);
    return (await keyring.openForTenant(dataKey, tenantId, aad, sealed)).toString("utf8");
  }

  return async (secrets) => {
    const { secret, besideSecret, tenant_id: tenantId, endpoint_id: endpointId, held_at: heldAt } = secrets;
    if (secret === null) {
      throw new Error(`endpoint ${endpointId} has no secret`);
    }
    const asOfMs = Math.min(clock.now(), heldAt?.getTime() ?? Number.POSITIVE_INFINITY);
    const { first, second } = signingVersions<StoredSecret>(secret, besideSecret, asOfMs);
    const both = second === null ? [first] : [first, second];
    const signingKeys: Uint8Array[] = [];
    for (const { version, sealedKey } of both) {
      if (sealedKey !== null) {
        const aad = signingKeyAad(tenantId, endpointId, version);
        signingKeys.push(await keyring.openForTenant(secrets.data_key, tenantId, aad, sealedKey));
      }
    }
    return {
      secret: await open(secrets, first),
      alternateSecret: second === null ? null : await open(secrets, second),
      signingKeys,
    };
  };
}

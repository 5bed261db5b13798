/** Authenticates clients without a secret: tls_client_auth (RFC 8705 section 2) and private_key_jwt (RFC 7523). */
import { isForeignCertificate, isRegisteredCertificate } from "../credentials/certificate-binding.ts";
import { isClientId } from "../credentials/secret-format.ts";
import type { ClientRecord } from "#database/repositories/tokens/clients.ts";
import type { Clock } from "#domain/clock.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import type { VerifyAssertion } from "./client-assertion.ts";

/** The credentials of such a client. */
export type PresentedWorkload =
  | { readonly method: "tls_client_auth"; readonly clientId: string }
  | { readonly method: "private_key_jwt"; readonly clientId: string; readonly assertion: string };

export interface WorkloadAuthenticatorOptions {
  readonly findClient: (clientId: string) => Promise<ClientRecord | undefined>;
  readonly verifyAssertion: VerifyAssertion;
  readonly clock: Clock;
}

/** Whether only a certificate is registered. A client with registered keys must use them. */
function hasCertificateOnly(client: ClientRecord | undefined): client is ClientRecord {
  return client?.rotation_mode === "workload" && client.jwks === null;
}

function hasKeys(client: ClientRecord | undefined): client is ClientRecord {
  return client?.rotation_mode === "workload" && client.jwks !== null;
}

function isGood({ active, ends_at: endsAt }: ClientRecord, nowMs: number): boolean {
  return active && (endsAt === null || nowMs < endsAt);
}

/**
 * Returns the client that the proof belongs to, whatever the state of its credential; or what is wrong with claims that it
 * has signed.
 */
async function provenClient(
  presented: PresentedWorkload,
  certificate: ClientCertificate | undefined,
  { findClient, verifyAssertion }: WorkloadAuthenticatorOptions,
): Promise<ClientRecord | string | undefined> {
  const found = isClientId(presented.clientId) ? await findClient(presented.clientId) : undefined;
  if (presented.method === "tls_client_auth") {
    return hasCertificateOnly(found) && isRegisteredCertificate(found, certificate) ? found : undefined;
  }
  const client = hasKeys(found) ? found : undefined;
  const verified = await verifyAssertion(client, presented.assertion);
  if (verified === undefined || client === undefined || isForeignCertificate(client, certificate)) {
    return undefined;
  }
  return verified === true ? client : `The client assertion is invalid: ${verified}.`;
}

/**
 * Resolves with the client, or with undefined for every kind of failure. Only who has the client's key learns more: a
 * sentence about the assertion.
 */
export async function authenticateWorkload(
  presented: PresentedWorkload,
  certificate: ClientCertificate | undefined,
  options: WorkloadAuthenticatorOptions,
): Promise<ClientRecord | string | undefined> {
  const client = await provenClient(presented, certificate, options);
  return typeof client !== "object" || isGood(client, options.clock.now()) ? client : undefined;
}

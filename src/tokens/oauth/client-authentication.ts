/**
 * Authenticates clients at the token endpoint: client_secret_post or client_secret_basic (RFC 6749 section 2.3.1), or
 * without a secret (workload-authentication.ts). Every rejection has the same answer. An unknown client costs the
 * same comparison as a known one.
 */
import { timingSafeEqual } from "node:crypto";
import { isForeignCertificate, isRegisteredCertificate } from "../credentials/certificate-binding.ts";
import { isClientId, isClientSecret } from "../credentials/secret-format.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { ClientRecord, FindClient, SecretVersionRecord } from "#database/repositories/tokens/clients.ts";
import type { Clock } from "#domain/clock.ts";
import { type Admission, admissionOf, type RotationRules } from "#domain/secret-version.ts";
import { SignetError } from "#domain/errors.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import { claimedClientId, JWT_BEARER } from "./client-assertion.ts";
import type { RequestParameters } from "./request-parameters.ts";
import {
  authenticateWorkload,
  type PresentedWorkload,
  type WorkloadAuthenticatorOptions,
} from "./workload-authentication.ts";

/** The credentials that the client presents. */
export type PresentedCredentials = PresentedSecret | PresentedWorkload;

/** A client id with its secret. */
export interface PresentedSecret {
  readonly method: "client_secret_post" | "client_secret_basic";
  readonly clientId: string;
  readonly clientSecret: string;
}

/** An authenticated client, and how it authenticated. */
export interface AuthenticatedClient {
  readonly client: ClientRecord;
  /** The version of its secret; undefined for a client without one (tls_client_auth, private_key_jwt). */
  readonly version: SecretVersionRecord | undefined;
  /** Whether it used mutual TLS with a certificate that its credential names. */
  readonly registeredCertificate: boolean;
  /** How the secret was admitted. Over the registered certificate, an ended version may be, too. */
  readonly admission: Exclude<Admission, "refused">;
}

const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2})$/i;
const BASIC_CHALLENGE = { "www-authenticate": 'Basic realm="service"' };

function invalidRequest(detail: string): SignetError {
  return new SignetError("INVALID_REQUEST", { detail });
}

/**
 * Creates the same error for every reason, so that it reveals nothing about clients.
 *
 * @param detail another sentence, for those who have proven to be the client
 */
export function invalidClient(usedHeader: boolean, detail = "Client authentication failed."): SignetError {
  return new SignetError("INVALID_CLIENT", {
    detail,
    headers: usedHeader ? BASIC_CHALLENGE : {},
  });
}

/** Decodes application/x-www-form-urlencoded, which RFC 6749 applies below the base64 of Basic. */
function decodePart(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}

function basicCredentials(authorization: string, parameters: RequestParameters): PresentedSecret {
  const encoded = BASIC.exec(authorization)?.[1];
  if (encoded === undefined) {
    throw invalidClient(true);
  }
  if (parameters["client_secret"] !== undefined) {
    throw invalidRequest("The client is authenticated in two ways; use only one.");
  }
  let clientId: string;
  let clientSecret: string;
  try {
    const pair = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(encoded, "base64"));
    const colon = pair.indexOf(":");
    clientId = decodePart(colon === -1 ? pair : pair.slice(0, colon));
    clientSecret = colon === -1 ? "" : decodePart(pair.slice(colon + 1));
  } catch {
    throw invalidRequest("The Authorization header is malformed.");
  }
  if (parameters["client_id"] !== undefined && parameters["client_id"] !== clientId) {
    throw invalidRequest("The request names two different clients.");
  }
  return { method: "client_secret_basic", clientId, clientSecret };
}

/** Reads a client assertion (RFC 7521 section 4.2). It names the client; an additional `client_id` must match. */
function assertedCredentials(
  authorization: string | undefined,
  parameters: RequestParameters,
): PresentedWorkload {
  const { client_assertion: assertion, client_assertion_type: type, client_id: clientId } = parameters;
  if (authorization !== undefined || parameters["client_secret"] !== undefined) {
    throw invalidRequest("The client is authenticated in two ways; use only one.");
  }
  if (assertion === undefined || type !== JWT_BEARER) {
    throw invalidRequest(`client_assertion requires client_assertion_type ${JWT_BEARER}.`);
  }
  const claimed = claimedClientId(assertion);
  if (clientId !== undefined && claimed !== undefined && claimed !== clientId) {
    throw invalidRequest("The request names two different clients.");
  }
  return { method: "private_key_jwt", clientId: claimed ?? "", assertion };
}

/** Reads the credentials that the client presents, without verifying them. */
export function presentedCredentials(
  authorization: string | undefined,
  parameters: RequestParameters,
  certificate?: ClientCertificate,
): PresentedCredentials {
  if (parameters["client_assertion"] !== undefined || parameters["client_assertion_type"] !== undefined) {
    return assertedCredentials(authorization, parameters);
  }
  if (authorization !== undefined) {
    return basicCredentials(authorization, parameters);
  }
  const { client_id: clientId, client_secret: clientSecret } = parameters;
  if (clientId === undefined && clientSecret !== undefined) {
    throw invalidRequest("Parameter client_id is missing.");
  }
  if (clientId !== undefined && clientSecret === undefined && certificate !== undefined) {
    return { method: "tls_client_auth", clientId };
  }
  if (clientId === undefined || clientSecret === undefined) {
    throw invalidClient(false);
  }
  return { method: "client_secret_post", clientId, clientSecret };
}

/** Resolves with the client. Rejects with `INVALID_CLIENT`, whatever the reason. */
export type AuthenticateClient = (
  presented: PresentedCredentials,
  certificate?: ClientCertificate,
) => Promise<AuthenticatedClient>;

/** A secret that matched under an earlier pepper, with its MAC under the newest. */
export interface OldMac {
  readonly credential_id: string;
  readonly version: number;
  readonly mac_key_id: string;
  readonly newMac: Buffer;
}

export interface ClientAuthenticatorOptions extends WorkloadAuthenticatorOptions {
  /** Also finds ended versions. Called unless a secret from `findClient` is admitted. */
  readonly findRetiredClient: FindClient;
  readonly pepper: Pepper;
  readonly rules: RotationRules;
  readonly clock: Clock;
  /** Called after a success under an earlier pepper; must not block. */
  readonly onOldMac?: (old: OldMac) => void;
  /** Called when a client uses an ended version; must not block. */
  readonly onRetiredSecret?: (client: ClientRecord, version: SecretVersionRecord) => void;
}

interface Candidate {
  readonly client: ClientRecord;
  readonly version: SecretVersionRecord;
}

async function admitWorkload(
  presented: PresentedWorkload,
  certificate: ClientCertificate | undefined,
  options: WorkloadAuthenticatorOptions,
): Promise<AuthenticatedClient> {
  const client = await authenticateWorkload(presented, certificate, options);
  if (typeof client !== "object") {
    throw invalidClient(false, client);
  }
  const registeredCertificate = isRegisteredCertificate(client, certificate);
  return { client, version: undefined, admission: "good", registeredCertificate };
}

/** Reports a secret that matched under an earlier pepper. */
function noteOldMac(
  { pepper, onOldMac }: Pick<ClientAuthenticatorOptions, "pepper" | "onOldMac">,
  { client: { credential_id: credentialId }, version: used }: AuthenticatedClient,
  secret: string,
): void {
  if (used !== undefined && used.mac_key_id !== pepper.id) {
    const { version, mac_key_id: macKeyId } = used;
    onOldMac?.({ credential_id: credentialId, version, mac_key_id: macKeyId, newMac: pepper.mac(secret) });
  }
}

/** Creates the authenticator of clients. */
export function createClientAuthenticator(options: ClientAuthenticatorOptions): AuthenticateClient {
  const { pepper, rules, clock } = options;
  const nobody: readonly Pick<SecretVersionRecord, "mac" | "mac_key_id">[] = [
    { mac: pepper.mac(""), mac_key_id: pepper.id },
  ];

  /** Compares with every version, so that the time taken reveals neither which one matched nor whether any did. */
  function match(client: ClientRecord | undefined, secret: string): Candidate | undefined {
    const macs = pepper.macs(secret);
    let found = -1;
    for (const [index, version] of (client?.versions ?? nobody).entries()) {
      for (const { keyId, mac } of macs) {
        if (version.mac_key_id === keyId && timingSafeEqual(version.mac, mac)) {
          found = index;
        }
      }
    }
    const version = client?.versions[found];
    return client === undefined || version === undefined ? undefined : { client, version };
  }

  function admit(
    { client, version }: Candidate,
    certificate: ClientCertificate | undefined,
  ): AuthenticatedClient | undefined {
    const nowMs = clock.now();
    const registeredCertificate = isRegisteredCertificate(client, certificate);
    if (
      !client.active ||
      (client.ends_at !== null && nowMs >= client.ends_at) ||
      isForeignCertificate(client, certificate)
    ) {
      return undefined;
    }
    const admission = admissionOf(version, rules, { nowMs, registeredCertificate });
    if (admission === "refused") {
      options.onRetiredSecret?.(client, version);
      return undefined;
    }
    return { client, version, registeredCertificate, admission };
  }

  async function find(
    { clientId, clientSecret }: PresentedSecret,
    certificate: ClientCertificate | undefined,
  ): Promise<AuthenticatedClient | undefined> {
    if (!isClientId(clientId) || !isClientSecret(clientSecret)) {
      return undefined;
    }
    const live = match(await options.findClient(clientId), clientSecret);
    const admitted = live && admit(live, certificate);
    if (admitted !== undefined) {
      return admitted;
    }
    // An unknown client and the right secret of one that is not admitted take this path, too, so that every rejection
    // takes as long.
    const ended = match(await options.findRetiredClient(clientId), clientSecret);
    return live === undefined && ended !== undefined ? admit(ended, certificate) : undefined;
  }

  return async (presented, certificate) => {
    if (!("clientSecret" in presented)) {
      return await admitWorkload(presented, certificate, options);
    }
    const authenticated = await find(presented, certificate);
    if (authenticated === undefined) {
      throw invalidClient(presented.method === "client_secret_basic");
    }
    noteOldMac(options, authenticated, presented.clientSecret);
    return authenticated;
  };
}

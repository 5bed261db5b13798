/**
 * Who asks for a token: client_secret_post or client_secret_basic (RFC 6749 section 2.3.1), or a client without a secret
 * (workload-authentication.ts). Every reason to refuse gets the same answer, and an unknown client costs the same
 * comparison as a known one.
 */
import { timingSafeEqual } from "node:crypto";
import { isForeignCertificate, isRegisteredCertificate } from "../credentials/certificate-binding.ts";
import { isClientId, isClientSecret } from "../credentials/secret-format.ts";
import type { Pepper } from "../../crypto/pepper.ts";
import type {
  ClientRecord,
  FindClient,
  SecretVersionRecord,
} from "../../database/repositories/tokens/clients.ts";
import type { Clock } from "../../domain/clock.ts";
import { type Admission, admissionOf, type RotationRules } from "../../domain/secret-version.ts";
import { SignetError } from "../../domain/errors.ts";
import type { ClientCertificate } from "../../http/mutual-tls/client-certificate.ts";
import { claimedClientId, JWT_BEARER } from "./client-assertion.ts";
import type { RequestParameters } from "./request-parameters.ts";
import {
  authenticateWorkload,
  type PresentedWorkload,
  type WorkloadAuthenticatorOptions,
} from "./workload-authentication.ts";

/** What the client sent to prove who it is. */
export type PresentedCredentials = PresentedSecret | PresentedWorkload;

/** A client id with its secret. */
export interface PresentedSecret {
  readonly method: "client_secret_post" | "client_secret_basic";
  readonly clientId: string;
  readonly clientSecret: string;
}

/** A client that proved who it is, and how. */
export interface AuthenticatedClient {
  readonly client: ClientRecord;
  /** The version of its secret; absent for a client that has none (tls_client_auth, private_key_jwt). */
  readonly version: SecretVersionRecord | undefined;
  /** Whether it came over mutual TLS with a certificate that its credential names. */
  readonly registeredCertificate: boolean;
  /** Over the registered certificate, also a version that is over for everybody else. */
  readonly admission: Exclude<Admission, "refused">;
}

const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2})$/i;
const BASIC_CHALLENGE = { "www-authenticate": 'Basic realm="service"' };

function invalidRequest(detail: string): SignetError {
  return new SignetError("INVALID_REQUEST", { detail });
}

/** The same body for every reason, so that it tells nothing about clients. */
export function invalidClient(usedHeader: boolean): SignetError {
  return new SignetError("INVALID_CLIENT", {
    detail: "Client authentication failed.",
    headers: usedHeader ? BASIC_CHALLENGE : {},
  });
}

/** Undoes application/x-www-form-urlencoded, which RFC 6749 puts under the base64 of Basic. */
function decodePart(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}

function basicCredentials(authorization: string, parameters: RequestParameters): PresentedSecret {
  const encoded = BASIC.exec(authorization)?.[1];
  if (encoded === undefined) {
    throw invalidClient(true);
  }
  if (parameters["client_secret"] !== undefined) {
    throw invalidRequest("The client is authenticated in two ways at once; use one.");
  }
  let clientId: string;
  let clientSecret: string;
  try {
    const pair = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(encoded, "base64"));
    const colon = pair.indexOf(":");
    clientId = decodePart(colon === -1 ? pair : pair.slice(0, colon));
    clientSecret = colon === -1 ? "" : decodePart(pair.slice(colon + 1));
  } catch {
    throw invalidRequest("The Authorization header is not well formed.");
  }
  if (parameters["client_id"] !== undefined && parameters["client_id"] !== clientId) {
    throw invalidRequest("Two different clients are named.");
  }
  return { method: "client_secret_basic", clientId, clientSecret };
}

/** RFC 7521 section 4.2: the assertion names the client; `client_id` may, and then it must be the same. */
function assertedCredentials(
  authorization: string | undefined,
  parameters: RequestParameters,
): PresentedWorkload {
  const { client_assertion: assertion, client_assertion_type: type, client_id: clientId } = parameters;
  if (authorization !== undefined || parameters["client_secret"] !== undefined) {
    throw invalidRequest("The client is authenticated in two ways at once; use one.");
  }
  if (assertion === undefined || type !== JWT_BEARER) {
    throw invalidRequest(`client_assertion needs client_assertion_type ${JWT_BEARER}.`);
  }
  const claimed = claimedClientId(assertion);
  if (clientId !== undefined && claimed !== undefined && claimed !== clientId) {
    throw invalidRequest("Two different clients are named.");
  }
  return { method: "private_key_jwt", clientId: claimed ?? "", assertion };
}

/** Reads what the client presents; which of it is right is not looked at here. */
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

export interface ClientAuthenticator {
  /** Resolves with the client; rejects with `INVALID_CLIENT`, the same for every reason. */
  readonly authenticate: (
    presented: PresentedCredentials,
    certificate?: ClientCertificate,
  ) => Promise<AuthenticatedClient>;
}

/** A secret that an earlier pepper checked, with its MAC under the newest. */
export interface OldMac {
  readonly credentialId: string;
  readonly version: number;
  readonly macKeyId: string;
  readonly newMac: Buffer;
}

export interface ClientAuthenticatorOptions extends WorkloadAuthenticatorOptions {
  /** With those that are over; asked for everybody whose secret is none of the first. */
  readonly findRetiredClient: FindClient;
  readonly pepper: Pepper;
  readonly rules: RotationRules;
  readonly clock: Clock;
  /** Told of a success under an earlier pepper; must not wait. */
  readonly onOldMac?: (old: OldMac) => void;
  /** Told when somebody came with a version that is over; must not wait. */
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
  if (client === undefined) {
    throw invalidClient(false);
  }
  const registeredCertificate = isRegisteredCertificate(client, certificate);
  return { client, version: undefined, admission: "good", registeredCertificate };
}

/** Makes the check of client secrets. */
export function createClientAuthenticator(options: ClientAuthenticatorOptions): ClientAuthenticator {
  const { pepper, rules, clock } = options;
  const nobody: readonly Pick<SecretVersionRecord, "mac" | "macKeyId">[] = [
    { mac: pepper.mac(""), macKeyId: pepper.id },
  ];

  /** Compares with every version, so that the time does not tell which one it was, or that there was none. */
  function match(client: ClientRecord | undefined, secret: string): Candidate | undefined {
    const macs = pepper.macs(secret);
    let found = -1;
    for (const [index, version] of (client?.versions ?? nobody).entries()) {
      for (const { keyId, mac } of macs) {
        if (version.macKeyId === keyId && timingSafeEqual(version.mac, mac)) {
          found = index;
        }
      }
    }
    const version = client?.versions[found];
    return client === undefined || version === undefined ? undefined : { client, version };
  }

  async function find({ clientId, clientSecret }: PresentedSecret): Promise<Candidate | undefined> {
    if (!isClientId(clientId) || !isClientSecret(clientSecret)) {
      return undefined;
    }
    const live = match(await options.findClient(clientId), clientSecret);
    // Unknown clients come this way too: what is refused takes as long, whatever the reason.
    return live ?? match(await options.findRetiredClient(clientId), clientSecret);
  }

  function admit(
    { client, version }: Candidate,
    certificate: ClientCertificate | undefined,
  ): AuthenticatedClient | undefined {
    const nowMs = clock.now();
    const registeredCertificate = isRegisteredCertificate(client, certificate);
    if (
      !client.active ||
      (client.endsAt !== null && nowMs >= client.endsAt) ||
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

  function noteOldMac({ client, version: { version, macKeyId } }: Candidate, secret: string): void {
    if (macKeyId !== pepper.id) {
      const { credentialId } = client;
      options.onOldMac?.({ credentialId, version, macKeyId, newMac: pepper.mac(secret) });
    }
  }

  return {
    authenticate: async (presented, certificate) => {
      if (!("clientSecret" in presented)) {
        return await admitWorkload(presented, certificate, options);
      }
      const candidate = await find(presented);
      const authenticated = candidate === undefined ? undefined : admit(candidate, certificate);
      if (candidate === undefined || authenticated === undefined) {
        throw invalidClient(presented.method === "client_secret_basic");
      }
      noteOldMac(candidate, presented.clientSecret);
      return authenticated;
    },
  };
}

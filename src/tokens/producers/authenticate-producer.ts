/**
 * Authenticates producers that sign their events (contract 6, security decisions F). The key is looked up before
 * the body is read. The receiver library then verifies the signature over the body.
 */
import { isForeignCertificate } from "../credentials/certificate-binding.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { FindProducer, Producer } from "#database/repositories/tokens/producer-secrets.ts";
import type { Clock } from "#domain/clock.ts";
import { isId } from "#domain/ids.ts";
import { SignetError, validationFailed } from "#domain/errors.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import type { LastUsedRecorder } from "../oauth/last-used.ts";
import type { Identity } from "#domain/identity.ts";
import { type LimitedNetwork, networksOf } from "#http/rate-limits/address-key.ts";
import type { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";
import type { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import { VerificationError } from "#lib/receiver/errors.ts";
import { type HeaderSource, readSignedHeaders } from "#lib/receiver/headers.ts";
import { type VerifiedPayload, verify } from "#lib/receiver/verify.ts";
import { producerSecretAad } from "./producer-secrets.ts";

/** Request headers as Node provides them. */
export type SignedRequestHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** Whether neither the certificate nor the signing identity is revoked. @throws SignetError REVOCATION_STALE */
export type AdmitIdentity = (identity: Identity) => Promise<boolean>;

export interface ProducerAuthenticatorOptions {
  readonly find: FindProducer;
  readonly keyring: Pick<Keyring, "openForTenant">;
  readonly admit: AdmitIdentity;
  readonly failures: FailureLimiter;
  readonly lookups: FruitlessLookups;
  readonly lastUsed: Pick<LastUsedRecorder, "note">;
  /** Whether a client certificate is required, as it is for tokens. */
  readonly certificateRequired: boolean;
  /** The brand in the header names, for instance "Service". */
  readonly headerBrand: string;
  readonly clock: Clock;
}

/** The parts of a request except its body. */
export interface SignedRequest {
  readonly headers: SignedRequestHeaders;
  readonly address: string;
  readonly certificate: ClientCertificate | undefined;
}

export interface VerifiedProducer {
  readonly identity: Identity;
  /** Id of the event or batch, covered by the signature. It identifies repetitions. */
  readonly eventId: string;
}

/** A request with well-formed headers and a valid key. Its body may be read now. */
export interface IdentifiedProducer {
  readonly credentialId: string;
  /** @throws SignetError `SIGNATURE_INVALID`, `PAYLOAD_EXPIRED`, `TIMESTAMP_MISMATCH`, `VALIDATION_FAILED` */
  verify(body: Uint8Array): Promise<VerifiedProducer>;
}

/** Creates the same error for every fault of the signature or its key. */
export function signatureInvalid(detail?: string, cause?: unknown): SignetError {
  return new SignetError("SIGNATURE_INVALID", {
    detail: detail ?? "The signature does not match, or its key is invalid.",
    cause,
    headers: { "www-authenticate": 'Bearer realm="service"' },
  });
}

const CODES = {
  SIGNATURE_INVALID: "SIGNATURE_INVALID",
  // An attacker changed the id to bypass the replay protection.
  ID_MISMATCH: "SIGNATURE_INVALID",
  PAYLOAD_EXPIRED: "PAYLOAD_EXPIRED",
  TIMESTAMP_MISMATCH: "TIMESTAMP_MISMATCH",
  HEADERS_MALFORMED: "INVALID_REQUEST",
  PAYLOAD_MALFORMED: "INVALID_REQUEST",
} as const;

function asRefusal(error: unknown): unknown {
  if (!(error instanceof VerificationError)) {
    return error;
  }
  const code = CODES[error.code];
  if (code === "SIGNATURE_INVALID") {
    return signatureInvalid(undefined, error);
  }
  const detail = `Rejected: ${error.message}.`;
  return code === "INVALID_REQUEST"
    ? new SignetError(code, { detail, cause: error })
    : new SignetError(code, {
        detail,
        cause: error,
        headers: { "www-authenticate": 'Bearer realm="service"' },
      });
}

/** Returns the id that the signature covers. A `v1` signature covers a header, whose id must match the body's. */
function signedId({ id, payload }: VerifiedPayload): string {
  const inBody =
    typeof payload === "object" && payload !== null && Object.hasOwn(payload, "id")
      ? (payload as { readonly id: unknown }).id
      : undefined;
  if (id === null) {
    const detail = "is required in a signed body, to detect repetitions";
    throw validationFailed([{ pointer: "/id", code: "required", detail }]);
  }
  if (inBody !== undefined && inBody !== id) {
    throw signatureInvalid();
  }
  return id;
}

function identityOf(
  producer: Producer,
  signedAt: number,
  certificate: ClientCertificate | undefined,
): Identity {
  return {
    tenantId: producer.tenant_id,
    principalId: producer.principal_id,
    credentialId: producer.credential_id,
    clientId: producer.client_id,
    region: producer.region,
    scopes: new Set(producer.scopes),
    // There is no token, and no signing key of ours.
    jti: "",
    kid: "",
    issuedAt: signedAt,
    certificateThumbprint: certificate?.x5t,
  };
}

/** Finds the version whose secret made the signature, and verifies the payload. */
async function check(
  producer: Producer,
  { headers, body: rawBody }: { readonly headers: HeaderSource; readonly body: Uint8Array },
  { keyring, headerBrand, clock }: Pick<ProducerAuthenticatorOptions, "keyring" | "headerBrand" | "clock">,
) {
  const { credential_id: credentialId, tenant_id: tenantId, data_key: dataKey, versions } = producer;
  let refusal: unknown;
  for (const version of versions) {
    const aad = producerSecretAad(tenantId, credentialId, version.version);
    const secret = await keyring.openForTenant(dataKey, tenantId, aad, version.sealed);
    const input = { rawBody, headers, secrets: [secret.toString("utf8")], now: clock.now(), headerBrand };
    try {
      return { version, payload: verify(input) };
    } catch (error) {
      refusal = error;
      if (!(error instanceof VerificationError && error.code === "SIGNATURE_INVALID")) {
        break;
      }
    }
  }
  throw asRefusal(refusal);
}

export class ProducerAuthenticator {
  readonly #options: ProducerAuthenticatorOptions;
  readonly #keyHeader: string;
  readonly #signatureHeaders: readonly string[];

  constructor(options: ProducerAuthenticatorOptions) {
    this.#options = options;
    const prefix = `x-${options.headerBrand.toLowerCase()}`;
    this.#keyHeader = `${prefix}-key-id`;
    this.#signatureHeaders = [`${prefix}-signature-256`, `${prefix}-signature-256-alt`, "webhook-signature"];
  }

  /** Whether a request has a signature, valid or not. */
  isSigned(headers: SignedRequestHeaders): boolean {
    return (
      headers[this.#keyHeader] !== undefined ||
      this.#signatureHeaders.some((name) => headers[name] !== undefined)
    );
  }

  /** @throws SignetError `INVALID_REQUEST`, `SIGNATURE_INVALID`, `RATE_LIMITED` */
  async identify(request: SignedRequest): Promise<IdentifiedProducer> {
    const { failures, headerBrand } = this.#options;
    const keyId = this.#keyIdOf(request.headers);
    try {
      readSignedHeaders(request.headers, headerBrand);
    } catch (error) {
      throw asRefusal(error);
    }
    const account = networksOf(request.address, keyId);
    const producer = await this.#counted(account, async () => await this.#find(keyId, request));
    return {
      credentialId: keyId,
      verify: async (body) => {
        const verified = await this.#counted(
          account,
          async () => await this.#verifyBody(producer, request, body),
        );
        failures.succeeded(account);
        return verified;
      },
    };
  }

  #keyIdOf(headers: SignedRequestHeaders): string {
    const keyId = headers[this.#keyHeader];
    if (typeof keyId !== "string" || !isId(keyId, "credential")) {
      throw new SignetError("INVALID_REQUEST", {
        detail: `The header ${this.#keyHeader} of a signed request must be the id of the credential whose signing secret was used.`,
      });
    }
    return keyId;
  }

  async #find(keyId: string, { address, certificate }: SignedRequest): Promise<Producer> {
    const { find, lookups } = this.#options;
    const producer = await lookups.find(address, async () => await find(keyId));
    if (
      producer === undefined ||
      (this.#options.certificateRequired && certificate === undefined) ||
      isForeignCertificate(producer, certificate)
    ) {
      throw signatureInvalid();
    }
    return producer;
  }

  async #verifyBody(
    producer: Producer,
    { headers, certificate }: SignedRequest,
    body: Uint8Array,
  ): Promise<VerifiedProducer> {
    const { version, payload } = await check(producer, { headers, body }, this.#options);
    const identity = identityOf(producer, payload.timestampSeconds, certificate);
    if (!(await this.#options.admit(identity))) {
      throw signatureInvalid();
    }
    const eventId = signedId(payload);
    this.#options.lastUsed.note(producer, version);
    return { identity, eventId };
  }

  /** Runs a check. A rejection counts as a failure of the address and the key. */
  async #counted<T>(account: readonly LimitedNetwork[], work: () => Promise<T>): Promise<T> {
    const { failures } = this.#options;
    try {
      return await failures.check(account, work);
    } catch (error) {
      const failed = error instanceof SignetError && error.code === "SIGNATURE_INVALID";
      throw (failed ? failures.failed(account) : undefined) ?? error;
    }
  }
}

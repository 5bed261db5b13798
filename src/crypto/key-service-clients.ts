/** The key management services of AWS and Google, by their official clients, which are optional packages. */
import type { KMS } from "@aws-sdk/client-kms";
import type { KeyManagementServiceClient } from "@google-cloud/kms";
import type { KmsKey } from "#config/key-settings.ts";
import { optionalPackage } from "#runtime/optional-package.ts";
import type { CallFailure, KeyService } from "./key-service.ts";

const CONNECT_MS = 1_000;
const REQUEST_MS = 2_000;
const TRIES_MAX = 2;

/** Errors of AWS KMS, by name. */
const AWS_FAILURES: Readonly<Record<string, CallFailure>> = {
  InvalidCiphertextException: "invalid",
  IncorrectKeyException: "invalid",
  AccessDeniedException: "refused",
  DisabledException: "refused",
  InvalidKeyUsageException: "refused",
  KMSInvalidStateException: "refused",
  NotFoundException: "refused",
};

/** Status codes of gRPC (google.rpc.Code) that Google's service answers with. */
const GOOGLE_FAILURES: Readonly<Record<number, CallFailure>> = {
  /** INVALID_ARGUMENT */
  3: "invalid",
  /** NOT_FOUND */
  5: "refused",
  /** PERMISSION_DENIED */
  7: "refused",
  /** FAILED_PRECONDITION: the key's version is disabled or destroyed. */
  9: "refused",
};

function bytesOf(given: Uint8Array | string | null | undefined): Uint8Array {
  if (given === undefined || given === null || typeof given === "string") {
    throw new Error("the key management service answered without data");
  }
  return given;
}

/** Calls AWS KMS. The place is the encryption context, which AWS also writes into CloudTrail. */
function awsKeyService(client: Pick<KMS, "encrypt" | "decrypt">): KeyService {
  return {
    encrypt: async (key, plaintext, place) => {
      const request = { KeyId: key, Plaintext: plaintext, EncryptionContext: { place } };
      return bytesOf((await client.encrypt(request)).CiphertextBlob);
    },
    decrypt: async (key, ciphertext, place) => {
      const request = { KeyId: key, CiphertextBlob: ciphertext, EncryptionContext: { place } };
      return bytesOf((await client.decrypt(request)).Plaintext);
    },
    meaningOf: (error) =>
      error instanceof Error ? (AWS_FAILURES[error.name] ?? "unavailable") : "unavailable",
  };
}

/** Calls Google Cloud KMS. The place is the additional authenticated data. */
export function googleKeyService(
  client: Pick<KeyManagementServiceClient, "encrypt" | "decrypt">,
): KeyService {
  const options = { timeout: REQUEST_MS, maxRetries: TRIES_MAX - 1 };
  return {
    encrypt: async (name, plaintext, place) => {
      const request = { name, plaintext, additionalAuthenticatedData: Buffer.from(place) };
      const [{ ciphertext }] = await client.encrypt(request, options);
      return bytesOf(ciphertext);
    },
    decrypt: async (name, ciphertext, place) => {
      const request = { name, ciphertext, additionalAuthenticatedData: Buffer.from(place) };
      const [{ plaintext }] = await client.decrypt(request, options);
      return bytesOf(plaintext);
    },
    meaningOf: (error) =>
      error instanceof Error && "code" in error && typeof error.code === "number"
        ? (GOOGLE_FAILURES[error.code] ?? "unavailable")
        : "unavailable",
  };
}

async function loadAws(region: string): Promise<KeyService> {
  const { KMS } = await optionalPackage(
    "@aws-sdk/client-kms@3",
    async () => await import("@aws-sdk/client-kms"),
  );
  const requestHandler = {
    connectionTimeout: CONNECT_MS,
    requestTimeout: REQUEST_MS,
    throwOnRequestTimeout: true,
  };
  return awsKeyService(new KMS({ region, maxAttempts: TRIES_MAX, requestHandler }));
}

async function loadGoogle(): Promise<KeyService> {
  const { KeyManagementServiceClient } = await optionalPackage(
    "@google-cloud/kms@5",
    async () => await import("@google-cloud/kms"),
  );
  const client = new KeyManagementServiceClient();
  // Otherwise the first call does it, whose failure the client throws where nobody can catch it.
  await client.initialize();
  return googleKeyService(client);
}

/**
 * Loads the clients of the services that hold the keys. Credentials come from the standard variables and files of each
 * service.
 *
 * @returns a function from a key to its service
 * @throws Error if a client's package is missing
 */
export async function loadKeyServices(keys: readonly KmsKey[]): Promise<(key: KmsKey) => KeyService> {
  const services = new Map<string | undefined, KeyService>();
  for (const region of new Set(keys.map(({ awsRegion }) => awsRegion))) {
    services.set(region, region === undefined ? await loadGoogle() : await loadAws(region));
  }
  return ({ awsRegion }) => services.get(awsRegion) as KeyService;
}

/** Headers and authentication that a tenant may add to requests to its receiver. Secrets in them are write-only. */
import { createPrivateKey, createPublicKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { envelopeAad } from "#crypto/envelope.ts";
import { type FieldProblem, validationFailed } from "#domain/errors.ts";
import { soundKey } from "#lib/public-key.ts";
import { messageOf } from "#runtime/thrown.ts";

/** Authentication with its secrets, as the tenant sends it and as the envelope stores it. */
export type Authentication =
  | { readonly type: "header"; readonly name: string; readonly value: string }
  | {
      readonly type: "oauth2_client_credentials";
      readonly token_url: string;
      readonly client_id: string;
      readonly client_secret: string;
      readonly scope?: string;
    }
  | { readonly type: "client_certificate"; readonly certificate: string; readonly private_key: string };

/** Context of the checks. */
export interface RequestRules {
  /** Brand in `X-Service-Signature-256`. */
  readonly headerBrand: string;
  /** Applies the address policy: a token URL is a target like the endpoint's own. */
  readonly checkUrl: (url: string) => URL;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** Maximum number of custom headers per endpoint. */
export const HEADERS_MAX = 16;
export const HEADERS_MAX_BYTES = 8_192;
const KEY_BITS_MIN = 2_048;
const KEY_BITS_MAX = 8_192;

/**
 * Headers that tenants may not set. They belong to the connection or content, identify the sender, are vouched for by
 * proxies, or open the metadata services of clouds.
 */
const FORBIDDEN_NAMES = new Set([
  "accept-encoding",
  "client-cert",
  "client-cert-chain",
  "connection",
  "date",
  "expect",
  "forwarded",
  "host",
  "http2-settings",
  "keep-alive",
  "metadata",
  "metadata-flavor",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "user-agent",
  "via",
  "x-google-metadata-request",
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
  "x-real-ip",
]);
const FORBIDDEN_PREFIXES = ["content-", "webhook-", "x-signet-", "x-forwarded-", "x-aws-ec2-metadata-"];
/** Headers with a secret belong under `authentication`, which is sealed and never shown. */
const SECRET_NAMES = new Set(["authorization", "cookie"]);

function isForbidden(name: string, brand: string): boolean {
  const lower = name.toLowerCase();
  const prefixes = [...FORBIDDEN_PREFIXES, `x-${brand.toLowerCase()}-`];
  return FORBIDDEN_NAMES.has(lower) || prefixes.some((prefix) => lower.startsWith(prefix));
}

function problem(pointer: string, code: string, detail: string): FieldProblem {
  return { pointer, code, detail };
}

/**
 * Checks headers whose names and values are well-formed.
 *
 * @returns JSON text; null without headers
 * @throws SignetError VALIDATION_FAILED
 */
export function checkHeaders(headers: Readonly<Record<string, string>>, brand: string): string | null {
  const problems: FieldProblem[] = [];
  const names = Object.keys(headers);
  const seen = new Set<string>();
  for (const name of names) {
    const lower = name.toLowerCase();
    if (isForbidden(name, brand)) {
      problems.push(problem(`/headers/${name}`, "forbidden", "is a reserved header"));
    } else if (SECRET_NAMES.has(lower)) {
      const detail = "contains a secret: set it as authentication of type header";
      problems.push(problem(`/headers/${name}`, "forbidden", detail));
    } else if (seen.has(lower)) {
      problems.push(
        problem(`/headers/${name}`, "duplicate", "is a duplicate: header names are case-insensitive"),
      );
    }
    seen.add(lower);
  }
  const text = JSON.stringify(headers);
  if (names.length > HEADERS_MAX || text.length > HEADERS_MAX_BYTES) {
    const detail = `exceeds ${HEADERS_MAX} headers or ${HEADERS_MAX_BYTES} bytes`;
    problems.push(problem("/headers", "max_properties", detail));
  }
  if (problems.length > 0) {
    throw validationFailed(problems);
  }
  return names.length === 0 ? null : text;
}

function readKey(pem: string): KeyObject {
  const key = createPrivateKey(pem);
  soundKey(createPublicKey(key));
  return key;
}

function attempt<Value>(pointer: string, detail: string, make: () => Value): Value {
  try {
    return make();
  } catch {
    // OpenSSL's message would not help a tenant, and could quote the secret.
    throw validationFailed([problem(pointer, "invalid", detail)]);
  }
}

function checkCertificate(
  { certificate, private_key: privateKey }: Extract<Authentication, { type: "client_certificate" }>,
  nowMs: number,
): X509Certificate {
  const leaf = attempt("/authentication/certificate", "is not a PEM certificate", () => {
    return new X509Certificate(certificate);
  });
  const key = attempt(
    "/authentication/private_key",
    `is not an unencrypted PEM private key (RSA: ${KEY_BITS_MIN} to ${KEY_BITS_MAX} bits)`,
    () => readKey(privateKey),
  );
  if (!leaf.checkPrivateKey(key)) {
    throw validationFailed([
      problem("/authentication/private_key", "mismatch", "does not match the certificate"),
    ]);
  }
  const endsAt = Date.parse(leaf.validTo);
  if (Number.isNaN(endsAt)) {
    throw validationFailed([problem("/authentication/certificate", "invalid", "has an invalid expiry date")]);
  }
  if (endsAt <= nowMs) {
    throw validationFailed([problem("/authentication/certificate", "expired", "has expired")]);
  }
  attempt("/authentication/certificate", "cannot be used for TLS with this key", () =>
    createSecureContext({ cert: certificate, key: privateKey }),
  );
  return leaf;
}

function checkTokenUrl(url: string, checkUrl: (url: string) => URL): string {
  try {
    return checkUrl(url).href;
  } catch (error) {
    throw validationFailed([
      problem("/authentication/token_url", "target_url_forbidden", `is not allowed. ${messageOf(error)}`),
    ]);
  }
}

/** An authentication that passed the checks. */
export interface CheckedAuthentication {
  /** JSON text for everyone who may read the endpoint. */
  readonly shown: string;
  /** JSON text for the envelope. */
  readonly secret: string;
}

/**
 * Checks an authentication whose members are well-formed.
 *
 * @throws SignetError VALIDATION_FAILED
 */
export function checkAuthentication(given: Authentication, rules: RequestRules): CheckedAuthentication {
  const updated = { updated_at: new Date(rules.nowMs).toISOString() };
  if (given.type === "header") {
    if (isForbidden(given.name, rules.headerBrand)) {
      throw validationFailed([problem("/authentication/name", "forbidden", "is a reserved header")]);
    }
    const { type, name } = given;
    return { shown: JSON.stringify({ type, name, ...updated }), secret: JSON.stringify(given) };
  }
  if (given.type === "oauth2_client_credentials") {
    const checked = { ...given, token_url: checkTokenUrl(given.token_url, rules.checkUrl) };
    const { client_secret: _secret, ...shown } = checked;
    return { shown: JSON.stringify({ ...shown, ...updated }), secret: JSON.stringify(checked) };
  }
  const leaf = checkCertificate(given, rules.nowMs);
  const shown = {
    type: given.type,
    fingerprint: leaf.fingerprint256.replaceAll(":", "").toLowerCase(),
    // Node returns undefined for an empty subject, contrary to its types.
    subject: (leaf.subject as string | undefined) ?? "",
    not_after: new Date(leaf.validTo).toISOString(),
    ...updated,
  };
  return { shown: JSON.stringify(shown), secret: JSON.stringify(given) };
}

/** Returns the additional data of an authentication's envelope. */
export function authenticationAad(tenantId: string, endpointId: string, version: number): string {
  return envelopeAad("endpoint_authentications", tenantId, endpointId, version);
}

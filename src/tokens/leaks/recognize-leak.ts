/** Recognizes what leaked by its form. Pure: no look-ups. Errors never repeat the text, which may be a secret. */
import { type FieldProblem, type SignetError, validationFailed } from "#domain/errors.ts";
import { isId } from "#domain/ids.ts";
import { decodeSecret } from "#lib/receiver/secret.ts";
import { isClientId, isClientSecret } from "../credentials/secret-format.ts";
import { isTokenText, TOKEN_LENGTH_MAX } from "../oauth/verify-access-token.ts";

/** Kinds that a caller may name, for texts of the same form. */
export const LEAK_KINDS = ["credential", "jti", "kid", "cert"] as const;

export type LeakKind = (typeof LEAK_KINDS)[number];

/** Maximum length of a text that leaked: a token after `Bearer `, with some white space. */
export const LEAK_LENGTH_MAX = TOKEN_LENGTH_MAX + 64;

/** What leaked, by its form. */
export type Leak =
  /** A credential by its id or its client id. */
  | { readonly form: "credential"; readonly id: string }
  | { readonly form: "client_secret"; readonly secret: string }
  /** A producer secret. */
  | { readonly form: "signing_secret"; readonly secret: string }
  | { readonly form: "token"; readonly token: string }
  | { readonly form: "jti"; readonly jti: string }
  | { readonly form: "kid"; readonly kid: string }
  /** A certificate by its SHA-256, 64 digits of lower-case hexadecimal. */
  | { readonly form: "cert"; readonly sha256: string }
  /** A key id, or a certificate's `x5t#S256`: both are a SHA-256 in base64url. */
  | { readonly form: "kid_or_cert"; readonly kid: string; readonly sha256: string };

const JTI = /^[A-Za-z0-9_-]{22}$/;
const THUMBPRINT = /^[A-Za-z0-9_-]{43}$/;
const HEXADECIMAL = /^[0-9a-f]{64}$/i;
/** As OpenSSL prints a fingerprint. */
const WITH_COLONS = /^(?:[0-9a-f]{2}:){31}[0-9a-f]{2}$/i;

/** What callers may send, for errors and descriptions. */
export const LEAK_FORMS =
  "a client id (cl_…), a credential's id (crd_…), a client secret (sgn_…), a signing secret (whsec_…), a whole access token, a jti, a key id, or a certificate's SHA-256";

function invalid(problem: Omit<FieldProblem, "pointer">): SignetError {
  return validationFailed([{ pointer: "/target", ...problem }]);
}

/** Returns the SHA-256 of a certificate in hexadecimal; undefined if the text is none. */
function certificateOf(text: string): string | undefined {
  if (HEXADECIMAL.test(text) || WITH_COLONS.test(text)) {
    return text.replaceAll(":", "").toLowerCase();
  }
  return THUMBPRINT.test(text) ? Buffer.from(text, "base64url").toString("hex") : undefined;
}

function isSigningSecret(text: string): boolean {
  try {
    decodeSecret(text);
    return true;
  } catch {
    return false;
  }
}

/** Recognizes secrets and tokens, which the caller need not and cannot name by a kind. */
function recognizeSecret(text: string): Leak | undefined {
  if (text.startsWith("sgn_op_")) {
    throw invalid({
      code: "operator_token",
      detail: "is an operator's token: revoke it with `signet operator token revoke`",
    });
  }
  if (text.startsWith("sgn_")) {
    if (!isClientSecret(text)) {
      throw invalid({
        code: "checksum",
        detail: "is not a whole client secret: characters are missing or wrong",
      });
    }
    return { form: "client_secret", secret: text };
  }
  if (text.startsWith("whsec_")) {
    if (!isSigningSecret(text)) {
      throw invalid({
        code: "format",
        detail: "is not a whole signing secret: characters are missing or wrong",
      });
    }
    return { form: "signing_secret", secret: text };
  }
  return isTokenText(text) ? { form: "token", token: text } : undefined;
}

/** Recognizes the names of objects. Returns undefined for a text of another kind. */
function recognizeName(text: string, kind: LeakKind | undefined): Leak | undefined {
  const may = (wanted: LeakKind): boolean => kind === undefined || kind === wanted;
  if (may("credential") && (isId(text, "credential") || isClientId(text))) {
    return { form: "credential", id: text };
  }
  if (may("jti") && JTI.test(text)) {
    return { form: "jti", jti: text };
  }
  const sha256 = may("cert") ? certificateOf(text) : undefined;
  if (THUMBPRINT.test(text)) {
    if (sha256 === undefined) {
      return may("kid") ? { form: "kid", kid: text } : undefined;
    }
    return kind === "cert" ? { form: "cert", sha256 } : { form: "kid_or_cert", kid: text, sha256 };
  }
  return sha256 === undefined ? undefined : { form: "cert", sha256 };
}

const WANTED: Readonly<Record<LeakKind, string>> = {
  credential: "the id of a credential (crd_ and 24 characters) or its client id (cl_ and 24 characters)",
  jti: "the jti of a token: 22 characters of base64url",
  kid: "a key id: 43 characters of base64url",
  cert: "the SHA-256 of the certificate: 64 digits of hexadecimal, or its x5t#S256 in base64url",
};

/**
 * Recognizes what leaked.
 *
 * @param kind the kind that the caller names; undefined to recognize any
 * @throws SignetError `VALIDATION_FAILED` at `/target` if the text has none of the forms
 */
export function recognizeLeak(target: string, kind?: LeakKind): Leak {
  const text = target.trim().replace(/^Bearer\s+/i, "");
  const leak = (kind === undefined ? recognizeSecret(text) : undefined) ?? recognizeName(text, kind);
  if (leak === undefined) {
    throw invalid({ code: "format", detail: `must be ${kind === undefined ? LEAK_FORMS : WANTED[kind]}` });
  }
  return leak;
}

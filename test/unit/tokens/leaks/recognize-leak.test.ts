/** What leaked is recognized by its form, and errors never repeat it. */
import { createHash, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { SignetError } from "#domain/errors.ts";
import { newId } from "#domain/ids.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { newClientId, newClientSecret } from "#tokens/credentials/secret-format.ts";
import { type LeakKind, recognizeLeak } from "#tokens/leaks/recognize-leak.ts";
import { newOperatorToken } from "#tokens/operators/token-format.ts";

const digest = createHash("sha256").update("certificate").digest();
const hex = digest.toString("hex");
const thumbprint = digest.toString("base64url");
const jti = randomBytes(16).toString("base64url");
const id = newId("credential", 1, randomBytes);
const clientId = newClientId(randomBytes);
const secret = newClientSecret("production", randomBytes);
const signingSecret = generateSecret(randomBytes);
const token = `eyJhbGciOiJFUzI1NiJ9.eyJqdGkiOiJ4In0.${randomBytes(64).toString("base64url")}`;

/** Returns the refusal, or undefined if the text was recognized. */
function refusal(text: string, kind?: LeakKind): SignetError | undefined {
  try {
    recognizeLeak(text, kind);
    return undefined;
  } catch (error) {
    return error as SignetError;
  }
}

describe("a text is recognized", () => {
  it.each([
    ["a credential's id", id, { form: "credential", id }],
    ["a client id", clientId, { form: "credential", id: clientId }],
    ["a client secret", secret, { form: "client_secret", secret }],
    ["a signing secret", signingSecret, { form: "signing_secret", secret: signingSecret }],
    ["a token", token, { form: "token", token }],
    ["a token as in a header", `Bearer ${token}`, { form: "token", token }],
    ["a text with white space around it", ` ${clientId}\n`, { form: "credential", id: clientId }],
    ["a jti", jti, { form: "jti", jti }],
    ["a certificate's SHA-256", hex, { form: "cert", sha256: hex }],
    ["one in capitals", hex.toUpperCase(), { form: "cert", sha256: hex }],
    [
      "one as OpenSSL prints it",
      (hex.toUpperCase().match(/../g) ?? []).join(":"),
      { form: "cert", sha256: hex },
    ],
    ["43 characters of base64url", thumbprint, { form: "kid_or_cert", kid: thumbprint, sha256: hex }],
  ])("%s", (_name, text, leak) => {
    expect(recognizeLeak(text)).toEqual(leak);
  });

  it("as the kind that the caller names", () => {
    expect(recognizeLeak(thumbprint, "kid")).toEqual({ form: "kid", kid: thumbprint });
    expect(recognizeLeak(thumbprint, "cert")).toEqual({ form: "cert", sha256: hex });
    expect(recognizeLeak(clientId, "credential")).toEqual({ form: "credential", id: clientId });
    expect(recognizeLeak(jti, "jti")).toEqual({ form: "jti", jti });
  });
});

describe("a text is refused without being repeated", () => {
  it.each([
    ["an unknown text", "what is this", undefined, "format"],
    ["another object's id", newId("tenant", 1, randomBytes), undefined, "format"],
    ["a truncated secret", secret.slice(0, -1), undefined, "checksum"],
    ["a mistyped secret", secret.replace(/.$/, (last) => (last === "0" ? "1" : "0")), undefined, "checksum"],
    ["a truncated signing secret", signingSecret.slice(0, 20), undefined, "format"],
    ["an operator's token", newOperatorToken(randomBytes), undefined, "operator_token"],
    ["a jti that is named a kid", jti, "kid", "format"],
    ["a secret that is named a credential", secret, "credential", "format"],
    ["a thumbprint that is named a jti", thumbprint, "jti", "format"],
    ["an overlong token", `${token}${"A".repeat(5_000)}`, undefined, "format"],
  ] as const)("%s", (_name, text, kind, code) => {
    const error = refusal(text, kind);
    expect(error).toMatchObject({ code: "VALIDATION_FAILED", extensions: { errors: [{ code }] } });
    expect(JSON.stringify([error?.message, error?.extensions])).not.toContain(text.slice(0, 20));
  });
});

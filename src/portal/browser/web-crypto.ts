/** A browser's cryptography for proofs of the compliance log. */
import type { ProofCrypto } from "#lib/transparency-log/signed-note.ts";

const ED25519 = { name: "Ed25519" };
const PUBLIC_KEY_BYTES = 32;

/** The bytes in memory of their own, which WebCrypto's types ask for. */
const own = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(bytes);

async function importKey(publicKey: Uint8Array) {
  return await crypto.subtle.importKey("raw", own(publicKey), ED25519, false, ["verify"]);
}

export const WEB_CRYPTO: ProofCrypto = {
  sha256: async (input) => new Uint8Array(await crypto.subtle.digest("SHA-256", own(input))),
  verify: async (publicKey, text, signature) =>
    await crypto.subtle.verify(ED25519, await importKey(publicKey), own(signature), own(text)),
};

/** Returns whether this browser can verify Ed25519 signatures here: "yes", "insecure" (no HTTPS) or "no". */
export async function ability(): Promise<"yes" | "insecure" | "no"> {
  // Browsers leave it out on insecure pages, whatever its type says.
  const { subtle } = crypto as { readonly subtle?: unknown };
  if (subtle === undefined) {
    return "insecure";
  }
  try {
    await importKey(new Uint8Array(PUBLIC_KEY_BYTES));
    return "yes";
  } catch (error) {
    // A browser that supports the algorithm may reject the point; others report that the algorithm is not supported.
    const unknown = error instanceof DOMException && error.name === "NotSupportedError";
    return unknown || error instanceof TypeError ? "no" : "yes";
  }
}

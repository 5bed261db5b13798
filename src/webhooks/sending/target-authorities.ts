/** The operator's own certificate authorities, which receivers on the premises have their certificates from. */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/**
 * Reads a bundle of root certificates (PEM).
 *
 * @throws Error when there is none in it, or one that cannot be read
 */
export function loadTargetAuthorities(path: string): readonly string[] {
  const found = readFileSync(path, "utf8").match(CERTIFICATE) ?? [];
  if (found.length === 0) {
    throw new Error(`SIGNET_TARGET_CA_FILE has no certificate: ${path}`);
  }
  return found.map((pem) => new X509Certificate(pem).toString());
}

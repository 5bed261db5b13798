/** The operator's own certificate authorities, for receivers on the premises. */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/**
 * Loads a bundle of root certificates (PEM).
 *
 * @throws Error if it contains none, or an unreadable one
 */
export function loadTargetAuthorities(path: string): readonly string[] {
  const found = readFileSync(path, "utf8").match(CERTIFICATE) ?? [];
  if (found.length === 0) {
    throw new Error(`SIGNET_TARGET_CA_FILE has no certificate: ${path}`);
  }
  return found.map((pem) => new X509Certificate(pem).toString());
}

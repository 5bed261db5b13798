/** The operator's own certificate authorities, for receivers on the premises. */
import { readFileSync } from "node:fs";
import { certificatesOf } from "#http/mutual-tls/trust.ts";

/**
 * Loads a bundle of root certificates (PEM).
 *
 * @throws Error if it contains none, or an unreadable one
 */
export function loadTargetAuthorities(path: string): readonly string[] {
  const found = certificatesOf(readFileSync(path, "utf8"));
  if (found.length === 0) {
    throw new Error(`SIGNET_TARGET_CA_FILE has no certificate: ${path}`);
  }
  return found.map(String);
}

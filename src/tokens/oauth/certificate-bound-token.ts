/** Certificate-bound access tokens (RFC 8705 section 3), usable only with the certificate's key. */
import { timingSafeEqual } from "node:crypto";
import type { ClientCertificate } from "../../http/mutual-tls/client-certificate.ts";
import { tokenRefused } from "../../http/bearer-errors.ts";
import type { Identity } from "../../domain/identity.ts";

export interface BindingPolicy {
  /** Whether tokens without a certificate are rejected; false only in development. */
  readonly bindingRequired: boolean;
}

function isSame(left: string, right: string): boolean {
  const [a, b] = [Buffer.from(left), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** @throws SignetError `CERT_BINDING_MISMATCH` if the token belongs to another certificate, or lacks a required one */
export function requireBoundCertificate(
  { certificateThumbprint }: Pick<Identity, "certificateThumbprint">,
  certificate: ClientCertificate | undefined,
  { bindingRequired }: BindingPolicy,
): void {
  if (certificateThumbprint === undefined) {
    if (bindingRequired) {
      throw tokenRefused("CERT_BINDING_MISMATCH", "The access token is not bound to a client certificate.");
    }
    return;
  }
  if (certificate === undefined || !isSame(certificateThumbprint, certificate.x5t)) {
    throw tokenRefused(
      "CERT_BINDING_MISMATCH",
      "The access token is bound to a client certificate that this request does not use.",
    );
  }
}

/** Which certificate a credential belongs to (RFC 8705 section 2): a SPIFFE id or certificates by their thumbprint. */
import type { ClientCertificate } from "../../http/mutual-tls/client-certificate.ts";

/** How the client proves who it is besides its secret. */
export interface CertificateBinding {
  readonly sanUri: string | null;
  /** SHA-256, lowercase hexadecimal. */
  readonly certificateThumbprints: readonly string[];
}

/** Whether the credential names a certificate at all. */
export function namesCertificate({ sanUri, certificateThumbprints }: CertificateBinding): boolean {
  return sanUri !== null || certificateThumbprints.length > 0;
}

/**
 * Whether this is a certificate that the credential names; one of its names suffices. A SPIFFE id counts only where the
 * certificate has no other URI (X.509-SVID section 2): who could add a second one could speak for two.
 */
export function isRegisteredCertificate(
  { sanUri, certificateThumbprints }: CertificateBinding,
  certificate: ClientCertificate | undefined,
): boolean {
  if (certificate === undefined) {
    return false;
  }
  const [uri, ...others] = certificate.sanUris;
  return (
    certificateThumbprints.includes(certificate.thumbprint) ||
    (sanUri !== null && uri === sanUri && others.length === 0)
  );
}

/**
 * Whether the request came with somebody else's certificate. One without any is not judged here: whether there must be
 * one is the listener's to say.
 */
export function isForeignCertificate(
  binding: CertificateBinding,
  certificate: ClientCertificate | undefined,
): boolean {
  return (
    certificate !== undefined && namesCertificate(binding) && !isRegisteredCertificate(binding, certificate)
  );
}

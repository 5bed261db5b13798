/** The certificates of a credential (RFC 8705 section 2): a SPIFFE id, or thumbprints of certificates. */
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";

/** The certificates with which a client authenticates, in addition to its secret. */
export interface CertificateBinding {
  readonly san_uri: string | null;
  /** SHA-256, lowercase hexadecimal. */
  readonly certificate_thumbprints: readonly string[];
}

/** Whether the credential names any certificate. */
export function namesCertificate({
  san_uri: sanUri,
  certificate_thumbprints: certificateThumbprints,
}: CertificateBinding): boolean {
  return sanUri !== null || certificateThumbprints.length > 0;
}

/**
 * Whether the credential names this certificate, by either kind of name. A SPIFFE id counts only if the certificate has
 * no other URI (X.509-SVID section 2): otherwise a second URI would allow one certificate to speak for two clients.
 */
export function isRegisteredCertificate(
  { san_uri: sanUri, certificate_thumbprints: certificateThumbprints }: CertificateBinding,
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
 * Whether the request used a certificate of somebody else. A request without a certificate is not foreign. The listener
 * decides whether one is required.
 */
export function isForeignCertificate(
  binding: CertificateBinding,
  certificate: ClientCertificate | undefined,
): boolean {
  return (
    certificate !== undefined && namesCertificate(binding) && !isRegisteredCertificate(binding, certificate)
  );
}

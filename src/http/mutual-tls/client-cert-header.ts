/** `Client-Cert` and `Client-Cert-Chain` (RFC 9440), read strictly: what a proxy says about its client's certificate. */
import { X509Certificate } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { SignetError } from "../../domain/errors.ts";
import { CERTIFICATE_PROBLEMS, type CertificateProblem } from "./certificate-chain.ts";

/** Certificates between the leaf and the anchor; each costs a signature check. */
const CHAIN_MAX = 4;
/** RFC 8941 section 3.3.5, canonical, without the parameters that RFC 9440 does not define. */
const BYTE_SEQUENCE = /^:((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?):$/;

/**
 * In place of the two: why the edge passes on no certificate. It lets nobody in; who shows one that has expired is not
 * told that there was none.
 */
export const PROBLEM_HEADER = "x-signet-client-cert-problem";

/** Why there is no certificate, as far as whoever stands before us has said. */
export function forwardedProblem(headers: IncomingHttpHeaders): CertificateProblem {
  const said = headers[PROBLEM_HEADER];
  return CERTIFICATE_PROBLEMS.find((problem) => problem === said) ?? "missing";
}

/** What the headers hold; nothing of it is verified. */
export interface ForwardedCertificate {
  readonly leaf: X509Certificate;
  readonly intermediates: readonly X509Certificate[];
  /** The headers as they came: the same text is the same certificate. */
  readonly key: string;
}

/** Whether the request carries one of the two headers. */
export function hasCertificateHeader(headers: IncomingHttpHeaders): boolean {
  return headers["client-cert"] !== undefined || headers["client-cert-chain"] !== undefined;
}

function malformed(header: string): SignetError {
  return new SignetError("INVALID_REQUEST", { detail: `Header ${header} is not well formed (RFC 9440).` });
}

function certificateOf(item: string, header: string): X509Certificate {
  const encoded = BYTE_SEQUENCE.exec(item)?.[1];
  if (encoded === undefined || encoded === "") {
    throw malformed(header);
  }
  const der = Buffer.from(encoded, "base64");
  try {
    const certificate = new X509Certificate(der);
    // OpenSSL stops reading where the certificate ends.
    if (der.toString("base64") === encoded && certificate.raw.equals(der)) {
      return certificate;
    }
  } catch {
    // Not a certificate.
  }
  throw malformed(header);
}

/**
 * Reads the headers; nothing when there is no certificate.
 *
 * @throws SignetError `INVALID_REQUEST` for what RFC 9440 does not allow
 */
export function readCertificateHeaders(headers: IncomingHttpHeaders): ForwardedCertificate | undefined {
  const { "client-cert": leaf, "client-cert-chain": chain } = headers;
  if (typeof leaf !== "string") {
    if (chain !== undefined) {
      throw malformed("client-cert-chain");
    }
    return undefined;
  }
  const items = typeof chain === "string" ? chain.split(",").map((item) => item.trim()) : [];
  if (items.length > CHAIN_MAX) {
    throw malformed("client-cert-chain");
  }
  return {
    leaf: certificateOf(leaf, "client-cert"),
    intermediates: items.map((item) => certificateOf(item, "client-cert-chain")),
    key: `${leaf} ${items.join(" ")}`,
  };
}

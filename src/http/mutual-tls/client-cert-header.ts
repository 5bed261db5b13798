/**
 * Strict parser of `Client-Cert` and `Client-Cert-Chain` (RFC 9440), in which a proxy forwards a client's certificate.
 */
import { X509Certificate } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { elementsOf } from "../list-header.ts";
import { SignetError } from "#domain/errors.ts";
import { CERTIFICATE_PROBLEMS, type CertificateProblem, INTERMEDIATES_MAX } from "./certificate-chain.ts";
import type { Presented } from "./certificate-judge.ts";

/** RFC 8941 section 3.3.5, canonical, without the parameters that RFC 9440 does not define. */
const BYTE_SEQUENCE = /^:((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?):$/;

/**
 * The edge's reason for forwarding no certificate, sent instead of the two headers. It grants nothing; it only lets the
 * error distinguish, for example, an expired certificate from a missing one.
 */
export const PROBLEM_HEADER = "x-signet-client-cert-problem";

/** Returns the reason that the proxy gave for a missing certificate. */
export function forwardedProblem(headers: IncomingHttpHeaders): CertificateProblem {
  const said = headers[PROBLEM_HEADER];
  return CERTIFICATE_PROBLEMS.find((problem) => problem === said) ?? "missing";
}

/** Checks whether the request has one of the two headers. */
export function hasCertificateHeader(headers: IncomingHttpHeaders): boolean {
  return headers["client-cert"] !== undefined || headers["client-cert-chain"] !== undefined;
}

function malformed(header: string): SignetError {
  return new SignetError("INVALID_REQUEST", { detail: `Header ${header} is malformed (RFC 9440).` });
}

function certificateOf(item: string, header: string): X509Certificate {
  const encoded = BYTE_SEQUENCE.exec(item)?.[1];
  if (encoded === undefined || encoded === "") {
    throw malformed(header);
  }
  const der = Buffer.from(encoded, "base64");
  try {
    const certificate = new X509Certificate(der);
    // OpenSSL ignores bytes after the certificate.
    if (der.toString("base64") === encoded && certificate.raw.equals(der)) {
      return certificate;
    }
  } catch {
    // Not a certificate.
  }
  throw malformed(header);
}

/**
 * Parses the headers. Returns undefined without a certificate. The key is their text.
 *
 * @throws SignetError `INVALID_REQUEST` for headers that violate RFC 9440
 */
export function readCertificateHeaders(headers: IncomingHttpHeaders): Presented | undefined {
  const { "client-cert": leaf, "client-cert-chain": chain } = headers;
  if (typeof leaf !== "string") {
    if (chain !== undefined) {
      throw malformed("client-cert-chain");
    }
    return undefined;
  }
  const items = typeof chain === "string" ? elementsOf(chain) : [];
  if (items.length > INTERMEDIATES_MAX) {
    throw malformed("client-cert-chain");
  }
  return {
    leaf: certificateOf(leaf, "client-cert"),
    intermediates: items.map((item) => certificateOf(item, "client-cert-chain")),
    key: `${leaf} ${items.join(" ")}`,
  };
}

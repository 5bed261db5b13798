/** Client certificates: who stands behind each request, and which routes do not answer without one. */
import type { onRequestHookHandler } from "fastify";
import { SignetError } from "../../domain/errors.ts";
import type { ClientIdentification } from "../mutual-tls/client-identification.ts";
import { tokenRefused } from "../bearer-errors.ts";
import { OAUTH_PATHS } from "../oauth-error.ts";
import type { SignetServer } from "../types.ts";

/** Finds out about the client of every request before its route's guards run. */
export function installClientCertificates(server: SignetServer, clients: ClientIdentification): void {
  server.decorateRequest("clientCertificate");
  server.decorateRequest("clientCertificateProblem");
  server.decorateRequest("clientAddress", "");
  server.addHook("onRequest", (request, _reply, done) => {
    const { address, certificate, problem, certificateRequired, forgedHeader } = clients.identify(
      request.raw,
    );
    request.clientAddress = address;
    if (forgedHeader) {
      request.log.warn(
        { request_id: request.id, client_address: address },
        "certificate header from a peer that is no trusted proxy",
      );
      throw new SignetError("INVALID_REQUEST", { detail: "Client-Cert is taken from trusted proxies only." });
    }
    request.clientCertificate = certificate;
    request.clientCertificateProblem = certificateRequired && certificate === undefined ? problem : undefined;
    done();
  });
}

/** The guard of routes that mutual TLS protects, in front of all others: a request without a certificate gets no further. */
export const requireClientCertificate: onRequestHookHandler = (request, _reply, done) => {
  const { clientCertificateProblem: problem } = request;
  if (problem !== undefined) {
    const detail = `This address needs mutual TLS with a client certificate that is trusted here (${problem}).`;
    throw OAUTH_PATHS.has(request.routeOptions.url ?? "")
      ? new SignetError("CLIENT_CERT_REQUIRED", { detail })
      : tokenRefused("CLIENT_CERT_REQUIRED", detail);
  }
  done();
};

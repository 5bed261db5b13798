/** Identifies the client of each request, and guards routes that require a certificate. */
import type { onRequestHookHandler } from "fastify";
import { SignetError } from "#domain/errors.ts";
import { traceFields } from "#observability/tracer.ts";
import type { ClientIdentification } from "../mutual-tls/client-identification.ts";
import { tokenRefused } from "../bearer-errors.ts";
import { OAUTH_PATHS } from "../oauth-error.ts";
import type { SignetServer } from "../types.ts";

/** Installs the hook that identifies the client before the route's guards run. */
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
        { request_id: request.id, ...traceFields(request.span), client_address: address },
        "certificate header from an untrusted peer",
      );
      throw new SignetError("INVALID_REQUEST", {
        detail: "Client-Cert is only accepted from trusted proxies.",
      });
    }
    request.clientCertificate = certificate;
    request.clientCertificateProblem = certificateRequired && certificate === undefined ? problem : undefined;
    done();
  });
}

/** Rejects requests without a certificate on routes that require mutual TLS. Runs before all other guards. */
export const requireClientCertificate: onRequestHookHandler = (request, _reply, done) => {
  const { clientCertificateProblem: problem } = request;
  if (problem !== undefined) {
    const detail = `This route requires mutual TLS with a trusted client certificate (${problem}).`;
    throw OAUTH_PATHS.has(request.routeOptions.url ?? "")
      ? new SignetError("CLIENT_CERT_REQUIRED", { detail })
      : tokenRefused("CLIENT_CERT_REQUIRED", detail);
  }
  done();
};

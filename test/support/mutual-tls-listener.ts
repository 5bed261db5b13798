/** The listener of an api or an edge alone, which answers with its verdict on the client's certificate. */
import { type Environment, loadConfig } from "#config/config.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createClientCertHeaders } from "#edge/client-cert.ts";
import { PROBLEM_HEADER } from "#http/mutual-tls/client-cert-header.ts";
import { createLogger } from "#observability/logger.ts";
import { MutualTls } from "#processes/mutual-tls.ts";
import type { certificateFiles } from "./certificates.ts";
import { call, type CallOptions } from "./https-request.ts";

const KEEP_ALIVE_MS = 600_000;

export interface MutualTlsListener {
  readonly port: number;
  readonly tls: MutualTls;
}

/** Opens one with `server.key`, `server.crt` and `clients.crt` of the directory. */
export async function openMutualTlsListener(
  files: Pick<ReturnType<typeof certificateFiles>, "path">,
  environment: Environment,
): Promise<MutualTlsListener> {
  const config = loadConfig(
    {
      SIGNET_ENV: "development",
      SIGNET_DATABASE_URL: "postgres://user:password@localhost/none",
      SIGNET_EDGE_API_URL: "http://127.0.0.1:9",
      SIGNET_EDGE_LISTEN: "127.0.0.1:0",
      SIGNET_TLS_KEY_FILE: files.path("server.key"),
      SIGNET_TLS_CERT_FILE: files.path("server.crt"),
      SIGNET_CLIENT_CA_FILE: files.path("clients.crt"),
      ...environment,
    },
    "edge",
  );
  const tls = await MutualTls.open({ config, clock: systemClock, log: createLogger({ level: "silent" }) });
  const headersOf = createClientCertHeaders();
  const asked = new WeakSet<object>();
  const address = await tls.listen({
    request: (request, response) => {
      const { certificate, problem, forgedHeader } = tls.clients.identify(request);
      const judged = certificate === undefined ? problem : "ok";
      response.end(
        JSON.stringify({
          verdict: forgedHeader ? "forged" : judged,
          wasOpen: asked.has(request.socket),
          // As an edge would forward it to the api.
          forwarded: certificate === undefined ? { [PROBLEM_HEADER]: problem } : headersOf(certificate),
        }),
      );
      asked.add(request.socket);
    },
    clientError: (_error, socket) => socket.destroy(),
    timeouts: { keepAliveTimeout: KEEP_ALIVE_MS },
  });
  return { tls, port: address?.port ?? 0 };
}

/** Asks a listener for its verdict. It is "forged" for a header of a peer that is no trusted proxy. */
export async function askFor(port: number, options: CallOptions) {
  const answer = await call("/", { port, ...options });
  return {
    reused: answer.reused,
    session: answer.session,
    verdict: String(answer.body["verdict"]),
    /** Whether the connection has carried a request before. */
    wasOpen: answer.body["wasOpen"] === true,
    /** The headers in which an edge forwards the certificate. */
    forwarded: answer.body["forwarded"] as Record<string, string>,
  };
}

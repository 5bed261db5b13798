/**
 * The baseline for the edge: a bare @fastify/http-proxy. Arguments: port, upstream address and, for mutual TLS, the
 * files of the server's key, its certificate and the clients' CA. Prints one line when it listens.
 */
import { readFileSync } from "node:fs";
import proxy from "@fastify/http-proxy";
import fastify from "fastify";

const [port, upstream, keyFile, certFile, caFile] = process.argv.slice(2);
const https =
  keyFile === undefined
    ? undefined
    : {
        key: readFileSync(keyFile),
        cert: readFileSync(certFile),
        ca: readFileSync(caFile),
        requestCert: true,
        rejectUnauthorized: true,
      };
const server = fastify({ logger: false, ...(https === undefined ? {} : { https }) });
await server.register(proxy, { upstream, disableRequestLogging: true });
await server.listen({ port: Number(port), host: "127.0.0.1" });
process.stdout.write("listening\n");

/** Which cipher suites of TLS 1.2 our listeners accept: those that RFC 9325 section 4.2 recommends, and no others. */
import { connect } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { certificatesOf } from "#http/mutual-tls/trust.ts";
import { createLogger } from "#observability/logger.ts";
import { HubListener } from "#revocation/hub-socket.ts";
import { useTestApi } from "#test/support/api.ts";
import { certificateFiles, clientPair, newRoot, serverPair } from "#test/support/certificates.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { type OpenHub, openHub } from "#test/support/hubs.ts";
import { issueWith } from "#test/support/weak-certificates.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";

const HOST = "127.0.0.1";
const log = createLogger({ level: "fatal", destination: { write: () => undefined } });
const root = await newRoot();
const client = await clientPair(root);
const PAIRS = {
  ECDSA: await serverPair(root),
  RSA: await issueWith(root, { key: "RSA-2048", subject: "CN=server" }),
};
const files = certificateFiles();
afterAll(() => files.remove());

/** Returns the suite that the listener chooses from a list of OpenSSL's; undefined if it accepts none of them. */
async function chosen(port: number, ciphers: string): Promise<string | undefined> {
  return await new Promise((resolve, reject) => {
    const socket = connect({
      host: HOST,
      port,
      ...client,
      ca: root.cert,
      rejectUnauthorized: false,
      ciphers: `${ciphers}:@SECLEVEL=0`,
      maxVersion: "TLSv1.2",
    });
    socket.once("secureConnect", () => {
      resolve(socket.getCipher().name);
      socket.destroy();
    });
    socket.once("error", (error: NodeJS.ErrnoException) =>
      error.code === "ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE" ||
      error.code === "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE"
        ? resolve(undefined)
        : reject(error),
    );
  });
}

/** Returns every suite that the listener accepts: offers all of them, again and again without the accepted ones. */
async function acceptedSuites(port: number): Promise<readonly string[]> {
  const accepted: string[] = [];
  for (;;) {
    const suite = await chosen(
      port,
      ["ALL", "COMPLEMENTOFALL", ...accepted.map((name) => `!${name}`)].join(":"),
    );
    if (suite === undefined) {
      return accepted.toSorted();
    }
    accepted.push(suite);
  }
}

describe.each(["ECDSA", "RSA"] as const)("with a certificate of %s", (kind) => {
  const pair = PAIRS[kind];
  const [key, cert, ca] = [
    files.write(`${kind}.key`, pair.key),
    files.write(`${kind}.crt`, pair.cert),
    files.write("ca.crt", root.cert),
  ];
  const native = {
    SIGNET_MTLS_MODE: "native",
    SIGNET_TLS_KEY_FILE: key,
    SIGNET_TLS_CERT_FILE: cert,
    SIGNET_CLIENT_CA_FILE: ca,
  };
  const api = useTestApi({
    environment: {
      ...native,
      SIGNET_ADMIN_TLS_KEY_FILE: key,
      SIGNET_ADMIN_TLS_CERT_FILE: cert,
      SIGNET_ADMIN_TLS_CLIENT_CA_FILE: ca,
    },
  });
  const edge = useTestEdge(api, { environment: () => native });
  let hub: OpenHub;
  let listener: HubListener;
  let hubPort: number;
  beforeAll(async () => {
    hub = await openHub(api.database, log);
    const listen = { host: HOST, port: 0 };
    const tls = {
      ...pair,
      anchors: { pem: root.cert, certificates: certificatesOf(root.cert) },
      names: ["DNS:edge.test"],
      relays: [],
    };
    listener = new HubListener({
      timers: machineTimers,
      clock: systemClock,
      hub: hub.hub,
      listen,
      tls,
      log,
    });
    ({ port: hubPort } = await listener.listen());
  });
  afterAll(async () => {
    await listener.close();
    await hub.close();
  });

  test.each([
    ["the api", () => api.edgePort],
    ["the edge", () => edge.port],
    ["the operators' API", () => api.adminPort],
    ["a hub", () => hubPort],
  ])("%s accepts two suites of TLS 1.2", async (_name, port) => {
    expect(await acceptedSuites(port())).toEqual([
      `ECDHE-${kind}-AES128-GCM-SHA256`,
      `ECDHE-${kind}-AES256-GCM-SHA384`,
    ]);
  });
});

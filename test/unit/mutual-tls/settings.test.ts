import { expect, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { mutualTlsProblems } from "#config/mutual-tls.ts";

const DEVELOPMENT = { SIGNET_ENV: "development", SIGNET_HOME: "/home" };
const problems = (environment: Record<string, string>) =>
  mutualTlsProblems(loadConfig({ ...DEVELOPMENT, ...environment }));
const FILES = { SIGNET_TLS_KEY_FILE: "/k", SIGNET_TLS_CERT_FILE: "/c", SIGNET_CLIENT_CA_FILE: "/ca" };
const PROXIES = {
  SIGNET_PROXY_CA_FILE: "/p",
  SIGNET_PROXY_NAMES: "URI:spiffe://example/edge, DNS:edge.internal",
  SIGNET_TRUSTED_PROXIES: "10.0.0.0/8,::1/128",
};

test("development has no mutual TLS by default, and uses its own authority once enabled", () => {
  expect(loadConfig(DEVELOPMENT).mtlsMode).toBe("off");
  expect(loadConfig({ ...DEVELOPMENT, SIGNET_MTLS_MODE: "native" })).toMatchObject({
    tlsKeyFile: "/home/dev-ca/server.key",
    tlsCertFile: "/home/dev-ca/server.crt",
    clientCaFile: "/home/dev-ca/ca.crt",
  });
});

test("custom files must all be set, or none", () => {
  expect(problems({ SIGNET_MTLS_MODE: "native", ...FILES })).toEqual([]);
  expect(problems({ SIGNET_MTLS_MODE: "native", SIGNET_TLS_KEY_FILE: "/k" })).toEqual([
    "SIGNET_TLS_CERT_FILE must be set where SIGNET_MTLS_MODE is native",
    "SIGNET_CLIENT_CA_FILE must be set where SIGNET_MTLS_MODE is native",
  ]);
});

test("a proxy connects over a socket, or by mutual TLS with a pinned name from a listed address", () => {
  const proxy = { SIGNET_MTLS_MODE: "proxy", SIGNET_CLIENT_CA_FILE: "/ca" };
  expect(problems({ ...proxy, SIGNET_PROXY_SOCKET: "/s" })).toEqual([]);
  expect(problems({ ...proxy, ...FILES, ...PROXIES })).toEqual([]);
  expect(problems(proxy)).toEqual([expect.stringContaining("needs SIGNET_PROXY_SOCKET, or all of")]);
  for (const name of Object.keys(PROXIES)) {
    const incomplete = { ...proxy, ...FILES, ...PROXIES, SIGNET_PROXY_SOCKET: "/s", [name]: "" };
    expect(problems(incomplete), name).toHaveLength(1);
  }
});

test.each([
  ["SIGNET_MTLS_MODE", "on"],
  ["SIGNET_TRUSTED_PROXIES", "10.0.0.0/33"],
  ["SIGNET_TRUSTED_PROXIES", "proxy.internal"],
  ["SIGNET_PROXY_NAMES", "edge.internal"],
  ["SIGNET_MTLS_URL", "http://mtls.example"],
  ["SIGNET_FORWARDED_HEADER", "x-real-ip"],
])("%s=%s is a problem", (name, value) => {
  expect(() => loadConfig({ ...DEVELOPMENT, [name]: value })).toThrow(name);
});

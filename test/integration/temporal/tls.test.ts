/** Temporal over TLS with verified server and client certificates: a real server behind a TLS listener. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { temporalOptions } from "#temporal/client.ts";
import { connectNative } from "#temporal/native-client.ts";
import { certificateFiles, clientPair, newRoot, today } from "#test/support/certificates.ts";
import { testNamespace } from "#test/support/services.ts";
import { askTemporal, temporalOptionsOf } from "#test/support/temporal-connection.ts";
import { startTemporalTls, type TlsFront } from "#test/support/tls-servers.ts";

const NAME = "temporal.test";

describe("a Temporal server that requires certificates", () => {
  const files = certificateFiles();
  let server: TlsFront;
  let environment: Environment;

  beforeAll(async () => {
    const [root, other] = [await newRoot("Temporal CA"), await newRoot("Another CA")];
    const listener = await root.issue({
      subject: "CN=temporal",
      names: [{ type: "dns", value: NAME }],
      purposes: ["serverAuth"],
      ...today(),
    });
    const own = await clientPair(root);
    server = await startTemporalTls(listener, root.cert);
    files.write("other.pem", other.cert);
    environment = {
      SIGNET_ENV: "development",
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: await testNamespace(),
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.write("ca.pem", root.cert),
      TEMPORAL_TLS_CLIENT_CERT_PATH: files.write("own.pem", own.cert),
      TEMPORAL_TLS_CLIENT_KEY_PATH: files.write("own.key", own.key),
      TEMPORAL_TLS_SERVER_NAME: NAME,
    };
  });

  afterAll(() => {
    server.close();
    files.remove();
  });

  const changedBy = (changed: Environment): Environment => ({ ...environment, ...changed });
  const ask = async (changed: Environment): Promise<void> => await askTemporal(changedBy(changed));

  test("serves the api's and the worker's clients", async () => {
    await ask({});
    const native = await connectNative(temporalOptionsOf(environment));
    await native.close();
  });

  test.for<[what: string, changed: () => Environment]>([
    [
      "no client certificate",
      () => ({ TEMPORAL_TLS_CLIENT_CERT_PATH: "", TEMPORAL_TLS_CLIENT_KEY_PATH: "" }),
    ],
    [
      "a certificate of an untrusted CA",
      () => ({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path("other.pem") }),
    ],
    ["a certificate for another name", () => ({ TEMPORAL_TLS_SERVER_NAME: "temporal.example" })],
    [
      "no TLS on the client",
      () => ({
        TEMPORAL_TLS_SERVER_CA_CERT_PATH: "",
        TEMPORAL_TLS_CLIENT_CERT_PATH: "",
        TEMPORAL_TLS_CLIENT_KEY_PATH: "",
        TEMPORAL_TLS_SERVER_NAME: "",
      }),
    ],
  ])("is not connected to with %s", async ([, changed]) => {
    await expect(ask(changed())).rejects.toThrow(/UNAVAILABLE|DEADLINE_EXCEEDED/);
    await expect(connectNative(temporalOptionsOf(changedBy(changed())))).rejects.toThrow(/./);
  });

  test("needs a complete configuration or none", () => {
    const broken = (changed: Environment) => () => temporalOptionsOf(changedBy(changed));
    expect(broken({ TEMPORAL_TLS_CLIENT_KEY_PATH: "" })).toThrow(/must be set together/);
    expect(broken({ TEMPORAL_TLS: "false" })).toThrow(/TEMPORAL_TLS must not be false/);
    expect(broken({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path("absent.pem") })).toThrow(/cannot be read/);
    expect(
      temporalOptions({ ...loadConfig({ SIGNET_ENV: "development" }), temporalAddress: "x:1" }).tls,
    ).toBe(false);
  });
});

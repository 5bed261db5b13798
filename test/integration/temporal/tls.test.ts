/** The way to Temporal over TLS: its certificate is verified, and ours is shown. A real server behind a TLS listener. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Environment, loadConfig } from "../../../src/config/config.ts";
import { checkNamespace, createLazyClient, temporalOptions } from "../../../src/temporal/client.ts";
import { connectNative } from "../../../src/temporal/native-client.ts";
import { certificateFiles, clientPair, newRoot, today } from "../../support/certificates.ts";
import { testNamespace } from "../../support/services.ts";
import { startTemporalTls, type TlsFront } from "../../support/tls-servers.ts";

const NAME = "temporal.test";

describe("a Temporal that asks for certificates", () => {
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

  function optionsOf(changed: Environment): ReturnType<typeof temporalOptions> {
    const config = loadConfig({ ...environment, ...changed });
    return temporalOptions({ ...config, temporalAddress: config.temporalAddress ?? "" });
  }

  async function ask(changed: Environment): Promise<void> {
    const client = createLazyClient(optionsOf(changed));
    try {
      await checkNamespace(client);
    } finally {
      await client.connection.close();
    }
  }

  test("serves the client of the api and that of the worker", async () => {
    await ask({});
    const native = await connectNative(optionsOf({}));
    await native.close();
  });

  test.for<[what: string, changed: () => Environment]>([
    [
      "no certificate of ours",
      () => ({ TEMPORAL_TLS_CLIENT_CERT_PATH: "", TEMPORAL_TLS_CLIENT_KEY_PATH: "" }),
    ],
    [
      "a certificate of a CA that we do not trust",
      () => ({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path("other.pem") }),
    ],
    ["a certificate for another name", () => ({ TEMPORAL_TLS_SERVER_NAME: "temporal.example" })],
    [
      "no TLS on our side",
      () => ({
        TEMPORAL_TLS_SERVER_CA_CERT_PATH: "",
        TEMPORAL_TLS_CLIENT_CERT_PATH: "",
        TEMPORAL_TLS_CLIENT_KEY_PATH: "",
        TEMPORAL_TLS_SERVER_NAME: "",
      }),
    ],
  ])("is not spoken to with %s", async ([, changed]) => {
    await expect(ask(changed())).rejects.toThrow(/UNAVAILABLE|DEADLINE_EXCEEDED/);
    await expect(connectNative(optionsOf(changed()))).rejects.toThrow(/./);
  });

  test("is configured whole, or not at all", () => {
    const broken = (changed: Environment) => () => optionsOf(changed);
    expect(broken({ TEMPORAL_TLS_CLIENT_KEY_PATH: "" })).toThrow(/must be set together/);
    expect(broken({ TEMPORAL_TLS: "false" })).toThrow(/TEMPORAL_TLS must not be false/);
    expect(broken({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path("absent.pem") })).toThrow(/cannot be read/);
    expect(
      temporalOptions({ ...loadConfig({ SIGNET_ENV: "development" }), temporalAddress: "x:1" }).tls,
    ).toBe(false);
  });
});

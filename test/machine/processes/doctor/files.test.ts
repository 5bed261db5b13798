/** `signet doctor` reads the files in the settings as the processes do. */
import { afterAll, expect, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { examineFiles } from "#processes/doctor/files.ts";
import { certificateFiles, newRoot, serverPair } from "#test/support/certificates.ts";

const files = certificateFiles();
afterAll(files.remove);
const root = await newRoot();
const [server, other] = [await serverPair(root), await serverPair(root)];

const examine = async (environment: Environment) =>
  await examineFiles(
    loadConfig(
      {
        SIGNET_ENV: "development",
        SIGNET_DATABASE_URL: "postgres://user:password@localhost/none",
        SIGNET_EDGE_API_URL: "http://127.0.0.1:9",
        ...environment,
      },
      "edge",
    ),
  );

test("files that work are found well, and those that do not are named with the reason", async () => {
  const environment = {
    SIGNET_MTLS_MODE: "native",
    SIGNET_TLS_KEY_FILE: files.write("server.key", server.key),
    SIGNET_TLS_CERT_FILE: files.write("server.crt", server.cert),
    SIGNET_CLIENT_CA_FILE: files.write("ca.crt", root.cert),
  };
  expect(await examine({ SIGNET_MTLS_MODE: "off" })).toEqual([]);
  expect(await examine(environment)).toMatchObject([{ check: "files", ok: true }]);
  const routes = files.write("routes.json", "{}");
  const found = await examine({
    ...environment,
    SIGNET_TLS_KEY_FILE: files.write("other.key", other.key),
    SIGNET_EDGE_ROUTES: routes,
  });
  expect(found).toMatchObject([{ check: "files", ok: false }]);
  expect(found[0]?.detail).toContain("other.key is not the key of");
  expect(found[0]?.detail).toContain("Invalid route table");
});

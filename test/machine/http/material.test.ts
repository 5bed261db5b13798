/** Files of keys that cannot be used are named with the reason. */
import { createPrivateKey } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { openMaterial } from "../../../src/http/mutual-tls/material.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { certificateFiles, newRoot, serverPair } from "../../support/certificates.ts";

const files = certificateFiles();
afterAll(files.remove);

test("an encrypted private key is named as such", async () => {
  const root = await newRoot();
  const { key, cert } = await serverPair(root);
  const cipher = { cipher: "aes-256-cbc", passphrase: "secret" } as const;
  const encrypted = createPrivateKey(key).export({ type: "pkcs8", format: "pem", ...cipher });
  const keyFile = files.write("server.key", String(encrypted));
  const tls = { keyFile, certFile: files.write("server.crt", cert) };
  const options = { development: false, clientCaFile: files.write("ca.crt", root.cert), tls };
  await expect(openMaterial(options, createLogger({ level: "silent" }), () => undefined)).rejects.toThrow(
    `${keyFile} is encrypted, and Signet asks for no passphrase`,
  );
});

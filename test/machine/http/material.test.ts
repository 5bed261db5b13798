/** Files of keys, certificates and authorities: what is read is what TLS gets, and what cannot be used is named. */
import { createPrivateKey } from "node:crypto";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { type Material, MaterialStore } from "#http/mutual-tls/material.ts";
import { readTrustAnchors } from "#http/mutual-tls/trust.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { certificateFiles, clientPair, newRoot, serverPair, today } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { call } from "#test/support/https-request.ts";

const files = certificateFiles();
afterAll(files.remove);

test("an encrypted private key is named as such", async () => {
  const root = await newRoot();
  const { key, cert } = await serverPair(root);
  const cipher = { cipher: "aes-256-cbc", passphrase: "secret" } as const;
  const encrypted = createPrivateKey(key).export({ type: "pkcs8", format: "pem", ...cipher });
  const keyFile = files.write("server.key", String(encrypted));
  const tls = { keyFile, certFile: files.write("server.crt", cert) };
  const options = {
    name: "certificates",
    development: false,
    clientCaFile: files.write("ca.crt", root.cert),
    tls,
  };
  await expect(MaterialStore.open(options, createLogger({ level: "silent" }))).rejects.toThrow(
    `${keyFile} is encrypted, and Signet asks for no passphrase`,
  );
});

test("unusable files are read again until they are usable, and meanwhile the process says so", async () => {
  const [old, next] = [await newRoot("Old"), await newRoot("Next")];
  const [pair, renewed] = [await serverPair(old), await serverPair(old)];
  const tls = {
    keyFile: files.write("kept.key", pair.key),
    certFile: files.write("kept.crt", pair.cert),
  };
  const clientCaFile = files.write("kept-ca.crt", old.cert);
  const lines: string[] = [];
  const log = createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });
  const changes: Material[] = [];
  const opened = await MaterialStore.open(
    { name: "certificates", development: false, clientCaFile, tls },
    log,
  );
  opened.onChange((material) => void changes.push(material));
  onTestFinished(() => opened.close());
  const before = opened.current();
  const refused = async () => (await metrics.certificateFilesRefused.get()).values[0];
  expect(opened.note).toBeUndefined();
  files.write("kept.key", renewed.key);
  await eventually(() => opened.note !== undefined, "the refusal");
  expect(opened.note).toEqual({ refused: true });
  expect(await refused()).toMatchObject({ labels: { files: "certificates" }, value: 1 });
  expect(opened.current()).toBe(before);
  await expect(opened.check()).resolves.toBeUndefined();
  files.write("kept.crt", renewed.cert);
  await eventually(() => opened.current() !== before, "the renewed certificate");
  expect(opened.note).toBeUndefined();
  expect(await refused()).toMatchObject({ value: 0 });
  const said = lines.filter((line) => line.includes("unusable"));
  expect(said).toEqual([expect.stringContaining(`${tls.keyFile} is not the key of ${tls.certFile}`)]);
  // The authorities are the same, so what was judged under them stays.
  expect(opened.current().clientAnchors).toBe(before.clientAnchors);
  files.write("kept-ca.crt", old.cert + next.cert);
  await eventually(() => changes.length === 2, "the added authority");
  expect(opened.current().clientAnchors).not.toBe(before.clientAnchors);
});

const [first, second] = [await newRoot("First"), await newRoot("Second")];
const glued = `${first.cert.trimEnd()}${second.cert}`;

describe("TLS trusts the authorities that are read from a file", () => {
  const server = serverPair(first);
  test.each([
    ["two certificates", first.cert + second.cert],
    ["glued without a newline", glued],
    ["Windows line ends", (first.cert + second.cert).replaceAll("\n", "\r\n")],
    ["a byte-order mark", `\uFEFF${first.cert}${second.cert}`],
    ["text around them", `subject=CN=First\n${first.cert}# next\n${second.cert}# end`],
    ["blank lines between them", `${first.cert}\n\n${second.cert}`],
    ["trailing spaces", (first.cert + second.cert).replaceAll("\n", "  \n")],
    ["no newline at the end", (first.cert + second.cert).trimEnd()],
    ["a key in front", first.key + first.cert + second.cert],
  ])("%s", async (_form, text) => {
    const path = files.write("odd.crt", text);
    const { pem, certificates } = await readTrustAnchors(path, { development: false });
    expect(certificates).toHaveLength(2);
    const listener = createServer(
      { ...(await server), ca: pem, requestCert: true, rejectUnauthorized: false },
      ({ socket }, response) => response.end(JSON.stringify({ is: (socket as TLSSocket).authorized })),
    );
    await new Promise<void>((resolve) => void listener.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void listener.close());
    const { port } = listener.address() as AddressInfo;
    for (const authority of [first, second]) {
      const pair = await clientPair(authority);
      expect((await call("/", { port, ca: first.cert, pair })).body).toEqual({ is: true });
    }
  });

  test.each([
    ["a damaged certificate beside a good one", `${first.cert}${second.cert.replace("MII", "M*I")}`],
    ["a certificate that ends early", first.cert + second.cert.replace(/-----END[^]*/, "")],
    ["the form TRUSTED CERTIFICATE", first.cert + second.cert.replaceAll(" CERT", " TRUSTED CERT")],
    ["the form X509 CERTIFICATE", first.cert + second.cert.replaceAll(" CERT", " X509 CERT")],
  ])("and none of a file with %s", async (_form, text) => {
    const path = files.write("odd.crt", text);
    await expect(readTrustAnchors(path, { development: false })).rejects.toThrow("invalid certificate");
  });
});

test("TLS presents the certificates that are read from a file, also glued ones", async () => {
  const below = await first.issueAuthority({ subject: "CN=Below", ...today() });
  const { key, cert } = await serverPair(below);
  const tls = {
    keyFile: files.write("server.key", key),
    certFile: files.write("server.crt", `${cert.trimEnd()}${below.cert}`),
  };
  const clientCaFile = files.write("ca.crt", first.cert);
  const opened = await MaterialStore.open(
    { name: "certificates", development: false, clientCaFile, tls },
    createLogger({ level: "silent" }),
  );
  onTestFinished(() => opened.close());
  const listener = createServer(opened.current().tls ?? {}, (_request, response) => response.end("{}"));
  await new Promise<void>((resolve) => void listener.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void listener.close());
  const { port } = listener.address() as AddressInfo;
  expect((await call("/", { port, ca: first.cert })).status).toBe(200);
});

/** Client certificates of endpoints, as OpenSSL reads them, including invalid ones. */
import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkAuthentication } from "../../../../src/webhooks/sending/authentication.ts";

const NOW_MS = Date.now();
let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "signet-authentication-"));
});
afterAll(() => rmSync(directory, { recursive: true }));

function selfSigned(subject: string): { readonly certificate: string; readonly private_key: string } {
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const made = ["req", "-x509", ...curve, "-keyout", key, "-out", cert, "-days", "2", "-subj", subject];
  execFileSync("openssl", made, { stdio: "pipe" });
  return { certificate: readFileSync(cert, "utf8"), private_key: readFileSync(key, "utf8") };
}

/** Returns the certificate with this text as its end time. */
function endingAt(pem: string, time: string): string {
  const der = Buffer.from(new X509Certificate(pem).raw);
  const [, end] = der.toString("latin1").matchAll(/\d{12}Z/g);
  der.write(time, end?.index ?? 0, "latin1");
  return `-----BEGIN CERTIFICATE-----\n${der.toString("base64")}\n-----END CERTIFICATE-----\n`;
}

function check(pair: ReturnType<typeof selfSigned>): { readonly shown: string } {
  const rules = { headerBrand: "Service", checkUrl: (url: string) => new URL(url), nowMs: NOW_MS };
  return checkAuthentication({ type: "client_certificate", ...pair }, rules);
}

test.each(["ZZZZZZZZZZZZZ", "361331250000Z", "            Z"])(
  "a certificate that ends at %j is rejected as the tenant's mistake",
  (time) => {
    const { certificate, private_key } = selfSigned("/CN=a");
    expect(() => check({ certificate: endingAt(certificate, time), private_key })).toThrow(
      expect.objectContaining({ code: "VALIDATION_FAILED" }),
    );
  },
);

test("a certificate without a subject is shown with an empty one", () => {
  expect(JSON.parse(check(selfSigned("/")).shown)).toMatchObject({ subject: "" });
  expect(JSON.parse(check(selfSigned("/CN=a")).shown)).toMatchObject({ subject: "CN=a" });
});

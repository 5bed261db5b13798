/** Client certificates of endpoints, including invalid ones. */
import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { createAuthority } from "#http/mutual-tls/authority.ts";
import { checkAuthentication } from "#webhooks/sending/authentication.ts";

const NOW_MS = 1_763_650_000_000;
const VALIDITY = { notBefore: new Date(NOW_MS - 3_600_000), notAfter: new Date(NOW_MS + 86_400_000) };

async function selfSigned(
  subject: string,
): Promise<{ readonly certificate: string; readonly private_key: string }> {
  const { cert, key } = await createAuthority({ subject, ...VALIDITY });
  return { certificate: cert, private_key: key };
}

/** Returns the certificate with this text as its end time. */
function endingAt(pem: string, time: string): string {
  const der = Buffer.from(new X509Certificate(pem).raw);
  const [, end] = der.toString("latin1").matchAll(/\d{12}Z/g);
  der.write(time, end?.index ?? 0, "latin1");
  return `-----BEGIN CERTIFICATE-----\n${der.toString("base64")}\n-----END CERTIFICATE-----\n`;
}

function check(pair: Awaited<ReturnType<typeof selfSigned>>): { readonly shown: string } {
  const rules = { headerBrand: "Service", checkUrl: (url: string) => new URL(url), nowMs: NOW_MS };
  return checkAuthentication({ type: "client_certificate", ...pair }, rules);
}

test.each(["ZZZZZZZZZZZZZ", "361331250000Z", "            Z"])(
  "a certificate that ends at %j is rejected as the tenant's mistake",
  async (time) => {
    const { certificate, private_key } = await selfSigned("CN=a");
    expect(() => check({ certificate: endingAt(certificate, time), private_key })).toThrow(
      expect.objectContaining({ code: "VALIDATION_FAILED" }),
    );
  },
);

test("a certificate without a subject is shown with an empty one", async () => {
  expect(JSON.parse(check(await selfSigned("")).shown)).toMatchObject({ subject: "" });
  expect(JSON.parse(check(await selfSigned("CN=a")).shown)).toMatchObject({ subject: "CN=a" });
});

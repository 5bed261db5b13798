import { expect, test } from "vitest";
import { isRegisteredCertificate } from "#tokens/credentials/certificate-binding.ts";
import { subjectAlternativeNames } from "#http/mutual-tls/client-certificate.ts";

const ID = "spiffe://service.example/tenant/t/client/c";
const certificate = {
  thumbprint: "ab".repeat(32),
  x5t: "",
  sanUris: [ID],
  chain: [],
  notBefore: 0,
  notAfter: 1,
};

test.each([
  ["the registered SPIFFE id", { san_uri: ID, certificate_thumbprints: [] }, certificate, true],
  [
    "a registered thumbprint",
    { san_uri: null, certificate_thumbprints: ["00", certificate.thumbprint] },
    certificate,
    true,
  ],
  [
    "one of two names",
    { san_uri: "spiffe://other/x", certificate_thumbprints: [certificate.thumbprint] },
    certificate,
    true,
  ],
  ["another SPIFFE id", { san_uri: `${ID}2`, certificate_thumbprints: [] }, certificate, false],
  [
    "an additional URI",
    { san_uri: ID, certificate_thumbprints: [] },
    { ...certificate, sanUris: [ID, "x:y"] },
    false,
  ],
  ["another thumbprint", { san_uri: null, certificate_thumbprints: ["cd".repeat(32)] }, certificate, false],
  ["nothing registered", { san_uri: null, certificate_thumbprints: [] }, certificate, false],
  ["no certificate", { san_uri: ID, certificate_thumbprints: [] }, undefined, false],
] as const)("%s", (_name, binding, presented, registered) => {
  expect(isRegisteredCertificate(binding, presented)).toBe(registered);
});

test.each([
  [undefined, []],
  ["DNS:a.example, URI:spiffe://a/b, IP Address:127.0.0.1", ["spiffe://a/b"]],
  ["URI:spiffe://a/b, URI:spiffe://c/d", ["spiffe://a/b", "spiffe://c/d"]],
  // A name that Node quotes is one name, whatever it looks like.
  ['URI:"x, URI:spiffe://a/b, y"', ["x, URI:spiffe://a/b, y"]],
  ['DNS:"x\\", URI:spiffe://a/b", URI:spiffe://c/d', ["spiffe://c/d"]],
  ['URI:spiffe://a/b, DNS:"never closed', []],
  ["URI:spiffe://a/b,URI:spiffe://c/d", []],
])("the URIs of %s", (printed, uris) => {
  const names = subjectAlternativeNames(printed).filter(({ kind }) => kind === "URI");
  expect(names.map(({ value }) => value)).toEqual(uris);
});

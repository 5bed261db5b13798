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
  ["the registered SPIFFE id", { sanUri: ID, certificateThumbprints: [] }, certificate, true],
  [
    "a registered thumbprint",
    { sanUri: null, certificateThumbprints: ["00", certificate.thumbprint] },
    certificate,
    true,
  ],
  [
    "one of two names",
    { sanUri: "spiffe://other/x", certificateThumbprints: [certificate.thumbprint] },
    certificate,
    true,
  ],
  ["another SPIFFE id", { sanUri: `${ID}2`, certificateThumbprints: [] }, certificate, false],
  [
    "an additional URI",
    { sanUri: ID, certificateThumbprints: [] },
    { ...certificate, sanUris: [ID, "x:y"] },
    false,
  ],
  ["another thumbprint", { sanUri: null, certificateThumbprints: ["cd".repeat(32)] }, certificate, false],
  ["nothing registered", { sanUri: null, certificateThumbprints: [] }, certificate, false],
  ["no certificate", { sanUri: ID, certificateThumbprints: [] }, undefined, false],
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

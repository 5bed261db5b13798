/** A header that only the edge may write never passes, in any spelling. */
import { array, assert, constantFrom, property, string, tuple } from "fast-check";
import { expect, test } from "vitest";
import { forwardedAnswerHeaders, forwardedRequestHeaders } from "#edge/headers.ts";

const OURS = [
  "x-signet-identity",
  "x-signet-identity-signature",
  "x-forwarded-for",
  "client-cert",
  "forwarded",
];

test("a reserved header is dropped, with any separator and any Connection header", () => {
  assert(
    property(
      constantFrom(...OURS),
      constantFrom("-", "_"),
      array(constantFrom("close", "keep-alive", "x-a", " X-Signet-Identity", "", "authorization"), {
        maxLength: 4,
      }),
      tuple(string(), string()),
      (name, separator, named, [a, b]) => {
        const kept = forwardedRequestHeaders({
          [name.replaceAll("-", separator)]: a,
          connection: named.join(","),
          "x-a": b,
          accept: "*/*",
        });
        expect(Object.keys(kept).toSorted()).toEqual(named.includes("x-a") ? ["accept"] : ["accept", "x-a"]);
      },
    ),
  );
});

test("a response keeps its end-to-end headers", () => {
  const headers = { "set-cookie": ["a", "b"], etag: "x", connection: "X-Hop", "x-hop": "1", upgrade: "h2c" };
  expect(forwardedAnswerHeaders(headers)).toEqual({ "set-cookie": ["a", "b"], etag: "x" });
});

/** Headers that carry a client's address, by the product that documents them. */
const DOCUMENTED: Readonly<Record<string, readonly string[]>> = {
  "RFC 7239 and custom": ["Forwarded", "X-Forwarded-For", "X-Forwarded", "Forwarded-For", "Z-Forwarded-For"],
  nginx: ["X-Real-IP", "X-Original-Forwarded-For"],
  Cloudflare: ["CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "True-Client-IP"],
  Akamai: ["True-Client-IP", "Akamai-Client-IP", "X-Akamai-Edgescape"],
  Fastly: ["Fastly-Client-IP", "Fastly-Client", "Fastly-Temp-XFF"],
  "Amazon CloudFront and load balancers": ["CloudFront-Viewer-Address", "X-Forwarded-Port"],
  "Azure Front Door, App Service and Application Gateway": [
    "X-Azure-ClientIP",
    "X-Azure-SocketIP",
    "X-Client-IP",
    "Client-IP",
    "X-Original-For",
    "X-Original-Host",
    "X-ARR-LOG-ID",
  ],
  "Envoy and Istio": ["X-Envoy-External-Address", "X-Envoy-Internal", "X-Envoy-Peer-Metadata"],
  "Google App Engine": ["X-AppEngine-User-IP", "X-AppEngine-Remote-Addr"],
  "Fly.io, Vercel and Netlify": ["Fly-Client-IP", "X-Vercel-Forwarded-For", "X-NF-Client-Connection-IP"],
  "Imperva, Sucuri, Qrator and DDoS-Guard": [
    "Incap-Client-IP",
    "X-Sucuri-ClientIP",
    "X-Qrator-IP-Source",
    "DDG-Connecting-IP",
  ],
  "Alibaba and ChinaCache": ["Ali-CDN-Real-IP", "CDN-Src-IP", "CDN-Real-IP"],
  "WebLogic and older proxies": [
    "Proxy-Client-IP",
    "WL-Proxy-Client-IP",
    "X-Cluster-Client-IP",
    "X-ProxyUser-Ip",
    "X-Originating-IP",
    "X-Remote-IP",
    "X-Remote-Addr",
    "Remote-Addr",
    "X-Coming-From",
    "Via",
  ],
};

test.each(Object.entries(DOCUMENTED))("no address header of %s is forwarded", (_whose, names) => {
  for (const name of names) {
    const spellings = [name, name.replaceAll("-", "_")].map((spelling) => spelling.toLowerCase());
    for (const spelling of spellings) {
      expect(forwardedRequestHeaders({ [spelling]: "192.0.2.1" }), spelling).toEqual({});
    }
  }
});

test("the client's own headers are forwarded", () => {
  const own = {
    accept: "*/*",
    authorization: "Bearer x",
    "content-type": "application/json",
    cookie: "a=b",
    host: "api.example.com",
    "idempotency-key": "one",
    origin: "https://app.example.com",
    referer: "https://app.example.com/",
    "sec-fetch-site": "same-origin",
    traceparent: "00-1-1-01",
    "user-agent": "curl",
    "x-client-version": "1.2",
    "x-description": "a real one",
    "x-source": "import",
    "x-user-agent": "app",
    "x-user-id": "42",
  };
  expect(forwardedRequestHeaders(own)).toEqual(own);
});

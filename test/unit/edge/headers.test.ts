/** No spelling of a header that only the edge may write comes through. */
import { array, assert, constantFrom, property, string, tuple } from "fast-check";
import { expect, test } from "vitest";
import { forwardedAnswerHeaders, forwardedRequestHeaders } from "../../../src/edge/headers.ts";

const OURS = [
  "x-signet-identity",
  "x-signet-identity-signature",
  "x-forwarded-for",
  "client-cert",
  "forwarded",
];

test("whatever separates its words, and whatever Connection names", () => {
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

test("an answer keeps what is between its ends", () => {
  const headers = { "set-cookie": ["a", "b"], etag: "x", connection: "X-Hop", "x-hop": "1", upgrade: "h2c" };
  expect(forwardedAnswerHeaders(headers)).toEqual({ "set-cookie": ["a", "b"], etag: "x" });
});

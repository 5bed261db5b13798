/** Error texts state the expected and the actual value, and never a secret. */
import { type TSchema, Type } from "typebox";
import { describe, expect, test } from "vitest";
import { Instant } from "#http/instants.ts";
import { Closed, Id, Nullable, OneOf, Region, Scope, TextLine } from "#http/common.ts";
import { EventType, NewEndpoint } from "#api/schemas/endpoints.ts";
import { createValueCheck } from "#http/validation.ts";

/** Returns `pointer sentence` for each fault of the value. */
function faults(schema: TSchema, value: unknown): string[] {
  return createValueCheck(schema)(value).map(({ pointer, detail }) => `${pointer} ${detail}`);
}

const ENDPOINT = { url: "https://example.com/hook", events: ["a.b"] };
const SECRET = "sgn_live_sk_0123456789";

describe("one sentence states the expected and the actual value", () => {
  test.each<[string, TSchema, unknown, string]>([
    [
      "a whole number",
      Type.Integer({ minimum: 1, maximum: 100 }),
      101,
      "a whole number from 1 to 100, not 101",
    ],
    ["a fraction", Type.Integer({ minimum: 1, maximum: 100 }), 1.5, "a whole number from 1 to 100, not 1.5"],
    ["an id of another noun", Id("event"), "ep_x", 'the id of an event (evt_ and 24 characters), not "ep_x"'],
    ["a choice", OneOf(["a", "b", "c"]), "d", 'a, b or c, not "d"'],
    ["nothing", OneOf(["a", "b"]), "", "a or b, not an empty string"],
    ["a region", Region, "EU", 'a region such as eu or eu-west-1, or global, not "EU"'],
    [
      "a long text",
      Region,
      "x".repeat(900),
      "a region such as eu or eu-west-1, or global, not a string of 900 characters",
    ],
    [
      "null or a number",
      Nullable(Type.Integer({ minimum: 1 })),
      "5",
      "a whole number of at least 1 or null, not a string of 1 character",
    ],
  ])("%s", (_name, schema, value, sentence) => {
    expect(faults(schema, value)).toEqual([` must be ${sentence}`]);
  });

  test("lengths are counted", () => {
    const list = Type.Array(Type.String(), { minItems: 1, maxItems: 2, uniqueItems: true });
    expect(faults(list, [])).toEqual([" must have at least 1 item, not 0"]);
    expect(faults(list, ["a", "b", "c"])).toEqual([" must have at most 2 items, not 3"]);
    expect(faults(list, ["a", "a"])).toEqual([" must not have duplicate items: items 0 and 1 are equal"]);
    expect(faults(TextLine(3), "")).toEqual([" must have at least 1 character, not 0"]);
    expect(faults(TextLine(3), "\u{1f600}".repeat(4))).toEqual([" must have at most 3 characters, not 4"]);
  });

  test("an absent member shows what is expected, an unknown one shows the known ones", () => {
    const thing = Closed({ at: Instant, name: Type.Optional(TextLine(9)) });
    expect(faults(thing, { a: 1 })).toEqual([
      "/at is required: a time with its offset (RFC 3339), such as 2025-11-20T14:46:40.000Z",
      "/a is unknown; known: at, name",
    ]);
  });
});

describe("for alternatives, the faults of the one that was meant", () => {
  test("are found by the distinguishing member", () => {
    const authentication = { type: "header", name: "no name", value: "x" };
    expect(faults(NewEndpoint, { ...ENDPOINT, authentication })).toEqual([
      "/authentication/name must be a header name: a letter, then letters, digits, - and _, 64 characters at most, not a string of 7 characters",
    ]);
  });

  test("are one sentence if that member is absent or unknown", () => {
    const kinds = "header, oauth2_client_credentials or client_certificate";
    expect(faults(NewEndpoint, { ...ENDPOINT, authentication: { name: "x" } })).toEqual([
      `/authentication/type is required: ${kinds}`,
    ]);
    expect(faults(NewEndpoint, { ...ENDPOINT, authentication: { type: "basic" } })).toEqual([
      `/authentication/type must be ${kinds}, not "basic"`,
    ]);
  });

  test("are one sentence if no alternative has the value's type", () => {
    expect(faults(NewEndpoint, { ...ENDPOINT, authentication: 5 })).toEqual([
      "/authentication must be an object or null, not 5",
    ]);
    expect(faults(NewEndpoint, { ...ENDPOINT, events: "a.b" })).toEqual([
      "/events must be a list, not a string of 3 characters",
    ]);
  });

  test("include a wildcard beside others, and a pattern", () => {
    expect(faults(NewEndpoint, { ...ENDPOINT, events: ["a.b", "*"] })).toEqual([
      expect.stringMatching(
        /^\/events\/1 must be an event type such as .* or \* as the only item, for all events, not "\*"$/,
      ),
    ]);
  });

  test("report an invalid member name once, at the member", () => {
    expect(faults(NewEndpoint, { ...ENDPOINT, headers: { "a b": "x" } })).toEqual([
      expect.stringMatching(/^\/headers\/a b has a name that is not a header name/),
    ]);
  });
});

describe("secret or long values are not repeated", () => {
  test.each<[string, TSchema]>([
    ["an id", Id("event")],
    ["an event type", EventType],
    ["a choice", OneOf(["a", "b"])],
    ["a scope", Scope],
    ["an instant", Instant],
    ["a number", Type.Integer()],
  ])("%s", (_name, schema) => {
    for (const secret of [SECRET, "whsec_AAAA", "eyJhbGciOi", "x".repeat(41), "p&ss word"]) {
      expect(faults(schema, secret).join()).toMatch(/not a string of \d+ characters$/);
    }
  });

  test("nor is a header's value or a client's secret", () => {
    const hidden = "hunter2\u0001";
    for (const authentication of [
      { type: "header", name: "a", value: hidden },
      { type: "oauth2_client_credentials", token_url: 5, client_id: "c", client_secret: hidden },
    ]) {
      const reported = faults(NewEndpoint, { ...ENDPOINT, authentication });
      expect(reported).toHaveLength(authentication.type === "header" ? 1 : 2);
      expect(reported.join()).not.toContain("hunter2");
    }
  });

  test("a name of thousands of characters is counted, not repeated", () => {
    const [reported = ""] = faults(NewEndpoint, { ...ENDPOINT, ["x".repeat(5_000)]: 1 });
    expect(reported).toMatch(/^ has a member of 5000 characters that is unknown/);
    expect(reported.length).toBeLessThan(400);
  });
});

test("a value of many members gets one fault: reporting half a million would take a second", () => {
  const check = createValueCheck(NewEndpoint);
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`m${index}`, 1]));
  expect(check({ ...ENDPOINT, ...many })).toHaveLength(1);
  expect(check({ ...ENDPOINT, events: Array.from({ length: 20_000 }, () => 1) })).toHaveLength(1);
  expect(check({ ...ENDPOINT, a: 1, b: 2, c: 3 })).toHaveLength(3);
});

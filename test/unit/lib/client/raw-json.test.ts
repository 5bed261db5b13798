/** JSON is sent and read exactly as written. */
import { describe, expect, test } from "vitest";
import { parseWithRaw, RawJson, stringifyWithRaw } from "#lib/client/raw-json.ts";

const TEXT = '{"a":9007199254740993, "b":1.0,\n"z":[1e400,-0],"a2":"1.0"}';

describe("a raw text", () => {
  test("is sent unchanged, anywhere and any number of times", () => {
    const raw = new RawJson(TEXT);
    expect(stringifyWithRaw({ type: "a.b", data: raw })).toBe(`{"type":"a.b","data":${TEXT}}`);
    expect(stringifyWithRaw({ events: [{ data: raw }, { data: new RawJson("1.0") }, { data: raw }] })).toBe(
      `{"events":[{"data":${TEXT}},{"data":1.0},{"data":${TEXT}}]}`,
    );
    expect(stringifyWithRaw(raw)).toBe(TEXT);
    expect(stringifyWithRaw({ a: [new RawJson("1.0")] }, 2)).toBe('{\n  "a": [\n    1.0\n  ]\n}');
  });

  test("with replacement patterns such as $& stays unchanged", () => {
    const text = String.raw`{"$&":"$1 $\u0060 $$"}`;
    expect(stringifyWithRaw({ data: new RawJson(text) })).toBe(`{"data":${text}}`);
  });

  test("is its parsed value for JSON.stringify", () => {
    expect(JSON.parse(JSON.stringify({ data: new RawJson('{"run":7.0}') }))).toEqual({ data: { run: 7 } });
  });

  test.each(["", " ", "nope", '{"a":}', "{} {}", "{'a':1}", '"\ud800"', "undefined", "1.", "01"])(
    "is rejected if it is not JSON: %j",
    (text) => {
      expect(() => new RawJson(text)).toThrow(TypeError);
    },
  );

  test("does not affect a text that is serialized inside another", () => {
    const nosy = { toJSON: () => stringifyWithRaw({ inner: new RawJson("2.0") }) };
    expect(stringifyWithRaw({ outer: new RawJson("1.0"), nosy, last: new RawJson("3.0") })).toBe(
      String.raw`{"outer":1.0,"nosy":"{\"inner\":2.0}","last":3.0}`,
    );
  });
});

describe("reading", () => {
  test.each([
    "9007199254740993",
    "1.0",
    "-0",
    "1e400",
    "1E2",
    "1.10",
    TEXT.replaceAll(/\s(?=["-])/g, ""),
    String.raw`{"a\"1.0":"1.0 \\","b\\":[1.0,2,"]1.0"]}`,
  ])("keeps every number of %s", (text) => {
    expect(stringifyWithRaw(parseWithRaw(text))).toBe(text);
  });

  test("returns numbers that fit a double as numbers", () => {
    expect(parseWithRaw('{"a":1,"b":-2.5,"c":"1.0","d":1e21,"e":null}')).toEqual({
      a: 1,
      b: -2.5,
      c: "1.0",
      d: expect.any(RawJson) as RawJson,
      e: null,
    });
  });

  test.each(["", "nope", '{"a":1.0.0}', '{"a":01}', '{"a":1.}', '{"a":-}', '{"a" 1.0}'])(
    "rejects %j",
    (text) => {
      expect(() => parseWithRaw(text)).toThrow(Error);
    },
  );
});

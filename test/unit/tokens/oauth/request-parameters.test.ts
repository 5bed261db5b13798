import { expect, test } from "vitest";
import { readParameters } from "#tokens/oauth/request-parameters.ts";

const KNOWN = ["client_id", "scope"];
const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";
const read = (body: string | Buffer, type: string) => readParameters(Buffer.from(body), type, KNOWN);

test.each([
  [JSON_TYPE, '{"client_id":"a","scope":"b c"}'],
  ["application/json; charset=utf-8", '{"client_id":"a","scope":"b c"}'],
  [FORM_TYPE, "client_id=a&scope=b+c"],
  [`${FORM_TYPE};charset=UTF-8`, "client_id=a&scope=b%20c"],
])("%s is read", (type, body) => {
  expect(read(body, type)).toEqual({ client_id: "a", scope: "b c" });
});

test.each([
  [JSON_TYPE, '{"client_id":"","scope":"b","other":{"a":[1]}}'],
  [FORM_TYPE, "client_id=&scope=b&other=1"],
])("an empty value is absent and unknown parameters are ignored (%s)", (type, body) => {
  expect(read(body, type)).toEqual({ scope: "b" });
});

test.each([
  ["no body", JSON_TYPE, ""],
  ["not an object", JSON_TYPE, '"text"'],
  ["a list", JSON_TYPE, "[]"],
  ["null", JSON_TYPE, "null"],
  ["truncated JSON", JSON_TYPE, '{"client_id":'],
  ["a number", JSON_TYPE, '{"client_id":1}'],
  ["null as a value", JSON_TYPE, '{"client_id":null}'],
  ["a list as a value", JSON_TYPE, '{"scope":["a"]}'],
  ["a member twice", JSON_TYPE, '{"client_id":"a","client_id":"b"}'],
  ["a member twice, once escaped", JSON_TYPE, '{"client_id":"a","clien\\u0074_id":"b"}'],
  ["an unknown member twice", JSON_TYPE, '{"x":1,"x":2}'],
  ["a NUL", JSON_TYPE, '{"client_id":"\\u0000"}'],
  ["bytes that are not UTF-8 in JSON", JSON_TYPE, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
  ["a parameter twice", FORM_TYPE, "client_id=a&client_id=b"],
  ["an unknown parameter twice", FORM_TYPE, "x=a&x=b"],
  ["a bad escape", FORM_TYPE, "client_id=%zz"],
  ["an escape that is not UTF-8", FORM_TYPE, "client_id=%ff"],
  ["bytes that are not UTF-8 in a form", FORM_TYPE, Buffer.from([0x61, 0x3d, 0xff])],
  ["a NUL in a form", FORM_TYPE, "client_id=%00"],
] as const)("%s is an invalid request (%s)", (_name, type, body) => {
  expect(() => read(body, type)).toThrow(expect.objectContaining({ code: "INVALID_REQUEST" }));
});

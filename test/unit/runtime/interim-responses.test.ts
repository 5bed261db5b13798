/** What a parser reads of a response, after its interim responses. */
import { describe, expect, test } from "vitest";
import { InterimResponses } from "#runtime/interim-responses.ts";

const FINAL = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

function read(text: string, size = text.length): string {
  const responses = new InterimResponses();
  let passed = "";
  for (let at = 0; at < text.length; at += size) {
    passed += responses.pass(Buffer.from(text.slice(at, at + size)))?.toString() ?? "";
  }
  return passed;
}

describe("a parser reads the final response alone", () => {
  test.each([
    ["no interim response", ""],
    ["one", CONTINUE],
    ["several", CONTINUE.repeat(3)],
    ["one with headers", "HTTP/1.1 100 Continue\r\nServer: x\r\nX-Long: y\r\n\r\n"],
    ["one without a reason", "HTTP/1.1 100\r\n\r\n"],
    ["one of HTTP/1.0", "HTTP/1.0 100 Continue\r\n\r\n"],
    [
      "others between them",
      `HTTP/1.1 102 Processing\r\n\r\n${CONTINUE}HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n`,
    ],
    ["an unknown one", "HTTP/1.1 199 Later\r\n\r\n"],
    ["line breaks around them", `\r\n${CONTINUE}\r\n\r\n`],
  ])("after %s", (_what, interim) => {
    for (const size of [1, 2, 7, 1_000]) {
      expect(read(interim + FINAL, size)).toBe(FINAL);
    }
  });
});

test.each([
  ["switching protocols", "HTTP/1.1 101 Switching Protocols\r\n\r\n"],
  ["no HTTP", "SSH-2.0-x\r\n"],
  ["a body that looks like one", `${FINAL}${CONTINUE}`],
  ["the start of a final one", "HTTP/1.1 2"],
])("%s is read as it is, and at once", (_what, text) => {
  expect(read(text)).toBe(text);
});

test("each response on a connection begins again, and no other bytes do", () => {
  const responses = new InterimResponses();
  expect(responses.pass(Buffer.from(FINAL))?.toString()).toBe(FINAL);
  expect(responses.pass(Buffer.from(CONTINUE))?.toString()).toBe(CONTINUE);
  responses.expect();
  expect(responses.pass(Buffer.from(CONTINUE))).toBeNull();
});

test("64 interim responses are accepted, and no more, and none beyond 16 KiB", () => {
  expect(read(CONTINUE.repeat(64) + FINAL)).toBe(FINAL);
  expect(() => read(CONTINUE.repeat(65) + FINAL)).toThrow("too many interim responses");
  expect(() => read(`HTTP/1.1 100 Continue\r\nX: ${"y".repeat(16_384)}`)).toThrow("too large");
});

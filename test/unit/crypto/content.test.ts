import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  contentKey,
  CONTENT_HEAD_BYTES,
  CONTENT_SALT_BYTES,
  contentRoot,
  openBeside,
  openContent,
  sealBeside,
  sealContent,
} from "#crypto/content.ts";
import { EnvelopeError } from "#crypto/envelope.ts";

const root = contentRoot(randomBytes(32));
const PLACE = "events|ten_a|evt_a|1";
const TEXTS = ["{}", '{"a":1.0,"b":"ünï\u{1F512}\u2028"}', `{"pad":"${"x".repeat(300_000)}"}`];

function sealed(text: string): Buffer {
  return sealContent(root, PLACE, randomBytes(CONTENT_SALT_BYTES), text);
}

describe("the content of an event", () => {
  test.each(TEXTS)("opens to the same text, byte for byte", (text) => {
    const content = sealed(text);
    expect(openContent(contentKey(root, content), PLACE, content)).toBe(text);
    expect(content.length).toBe(CONTENT_HEAD_BYTES + Buffer.byteLength(text) + 16);
  });

  test("shares no part with that of another event with the same data", () => {
    const [one, other] = [sealed(TEXTS[1] ?? ""), sealed(TEXTS[1] ?? "")];
    expect(one.subarray(CONTENT_HEAD_BYTES).equals(other.subarray(CONTENT_HEAD_BYTES))).toBe(false);
    expect(contentKey(root, one).equals(contentKey(root, other))).toBe(false);
  });

  test("does not open elsewhere, with another tenant's key, without its salt, or changed", () => {
    const content = sealed("{}");
    const key = contentKey(root, content);
    expect(() => openContent(key, "events|ten_b|evt_a|1", content)).toThrow(EnvelopeError);
    const foreign = contentKey(contentRoot(randomBytes(32)), content);
    expect(() => openContent(foreign, PLACE, content)).toThrow(EnvelopeError);
    for (let at = 1; at < content.length; at += 1) {
      const changed = Buffer.from(content);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => openContent(contentKey(root, changed), PLACE, changed)).toThrow(EnvelopeError);
    }
  });

  test.each([[Buffer.alloc(0)], [Buffer.of(1)], [Buffer.alloc(60)], [Buffer.from([1, ...randomBytes(40)])]])(
    "is rejected when it is invalid: %j",
    (content) => {
      expect(() => openContent(contentKey(root, content), PLACE, content)).toThrow(EnvelopeError);
    },
  );
});

test("a value sealed beside a content opens with that content's head only", () => {
  const content = sealed("{}");
  const place = "attempts|ten_a|dlv_a/1|1";
  const answer = sealBeside(contentKey(root, content), place, randomBytes(12), "thanks");
  const key = contentKey(root, content.subarray(0, CONTENT_HEAD_BYTES));
  expect(openBeside(key, place, answer)).toBe("thanks");
  expect(() => openBeside(key, "attempts|ten_a|dlv_a/1|2", answer)).toThrow(EnvelopeError);
  expect(() => openBeside(contentKey(root, sealed("{}")), place, answer)).toThrow(EnvelopeError);
  expect(() => openBeside(key, place, Buffer.of(1, 2))).toThrow(EnvelopeError);
  expect(() => openBeside(key, place, Buffer.alloc(0))).toThrow(EnvelopeError);
});

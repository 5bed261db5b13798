/** Parsing of submitted forms. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { readForm } from "#portal/forms.ts";

test("a browser's encoding is decoded to the typed text, with lists in their order", () => {
  const name = fc.stringMatching(/^[a-z_]{1,12}$/);
  const value = fc.string({ unit: "grapheme" }).filter((text) => !text.includes("\0"));
  fc.assert(
    fc.property(fc.dictionary(name, value), fc.array(value, { minLength: 1 }), (fields, ids) => {
      const sent = new URLSearchParams(fields);
      for (const id of ids) {
        sent.append("ids[]", id);
      }
      expect({ ...readForm(sent.toString()) }).toEqual({ ...fields, "ids[]": ids });
    }),
  );
});

test("a long list is parsed in linear time", () => {
  const count = 150_000;
  const before = process.cpuUsage();
  expect(readForm("[]&".repeat(count))).toMatchObject({ "[]": { length: count } });
  const { user } = process.cpuUsage(before);
  // Copying it for each entry would take twice as long at least.
  expect(user / 1_000).toBeLessThan(4_000);
});

test.each(["a=1&a=2", "a=%zz", "a=%00", "a=%ff", "a[]=%ff", "a[]=%00", "%zz[]=1"])(
  "%s is rejected",
  (text) => {
    expect(() => readForm(text)).toThrow("malformed");
  },
);

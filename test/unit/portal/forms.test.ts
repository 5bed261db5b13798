/** What programs that read forms are sent. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { readForm } from "../../../src/portal/forms.ts";

test("what a browser encodes is read as it was typed, lists in their order", () => {
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

test.each(["a=1&a=2", "a=%zz", "a=%00", "a=%ff"])("%s is refused", (text) => {
  expect(() => readForm(text)).toThrow("not well formed");
});

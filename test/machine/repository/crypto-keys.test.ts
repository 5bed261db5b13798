/** Node takes five times as long for a key that is no KeyObject, and twice as long for a signature with options. */
import { expect, it } from "vitest";
import { calleeName, Program } from "#test/support/statements/program.ts";

/** Position of the key among the arguments of these functions of `node:crypto`. */
const KEY_AT: Readonly<Record<string, number>> = {
  createHmac: 1,
  createCipheriv: 1,
  createDecipheriv: 1,
  sign: 2,
  verify: 2,
};
const NODE_CRYPTO = /@types\/node\/crypto\.d\.ts$/;

it("every key that node:crypto gets is a KeyObject", { timeout: 60_000 }, () => {
  const program = new Program();
  try {
    const keys = program.calls.flatMap((call) => {
      const declared = program.declarationOf(calleeName(call));
      const at = KEY_AT[calleeName(call).getText()];
      // A browser has CryptoKeys.
      const isNodes =
        declared !== undefined &&
        NODE_CRYPTO.test(declared.getSourceFile().fileName) &&
        !call.getSourceFile().fileName.includes("/portal/browser/");
      const key = at === undefined ? undefined : call.arguments[at];
      return isNodes && key !== undefined ? [key] : [];
    });
    expect(keys.length).toBeGreaterThan(15);
    const others = keys.filter(
      (key) => program.checker.getTypeAtLocation(key)?.getSymbol()?.name !== "KeyObject",
    );
    expect(others.map((key) => program.placeOf(key))).toEqual([]);
  } finally {
    program.close();
  }
});

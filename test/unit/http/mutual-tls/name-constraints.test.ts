/** Name constraints beyond the table of chains: encodings of names, and damaged certificates. */
import { X509Certificate } from "node:crypto";
import { constantFrom, nat, property, assert as hold } from "fast-check";
import { expect, test } from "vitest";
import { keepsNameConstraints } from "#http/mutual-tls/name-constraints.ts";
import {
  authority,
  client,
  der,
  extension,
  type Made,
  type Recipe,
  root,
} from "#test/support/made-certificates.ts";

const open = ({ cert }: Made): Buffer => new X509Certificate(cert).raw;
/** `O=…` as a directory name, in a string type. */
const organization = (tag: number, value: Buffer): Buffer =>
  der(0xa4, der(0x30, der(0x31, der(0x30, der(0x06, Buffer.of(0x55, 4, 10)), der(tag, value)))));
const constraints = (kind: number, ...bases: readonly Buffer[]): Pick<Recipe, "extensions"> =>
  extension("2.5.29.30", true, der(0x30, der(kind, ...bases.map((base) => der(0x30, base)))));
const wide = (text: string, bytes: number): Buffer =>
  Buffer.concat(
    Array.from(Buffer.from(text), (letter) => {
      const unit = Buffer.alloc(bytes);
      unit.writeUInt8(letter, bytes - 1);
      return unit;
    }),
  );

test.each([
  ["UTF8String", 0x0c, Buffer.from("Acme")],
  ["PrintableString", 0x13, Buffer.from("ACME")],
  ["TeletexString", 0x14, Buffer.from("acme")],
  ["BMPString", 0x1e, wide("Acme", 2)],
  ["UniversalString", 0x1c, wide("Acme", 4)],
])("an excluded directory is excluded in each string type: %s", async (_type, tag, value) => {
  const top = await root();
  const middle = await authority(top, constraints(0xa1, organization(tag, value)));
  const keeps = async (subject: string) =>
    keepsNameConstraints([await client(middle, { subject }), middle, top].map(open));
  expect(await keeps("O=Acme,CN=client")).toBe(false);
  expect(await keeps("O=Acm,CN=client")).toBe(true);
});

test("a damaged certificate keeps its constraints, breaks them, or throws a RangeError", async () => {
  const top = await root();
  const bases = [organization(0x0c, Buffer.from("Acme")), der(0x86, ".example.com"), der(0x82, "a.test")];
  const middle = await authority(top, constraints(0xa0, ...bases));
  const path = [await client(middle, { subject: "O=Acme,CN=client" }), middle, top].map(open);
  expect(keepsNameConstraints(path)).toBe(true);
  const outcome = (damaged: readonly Buffer[]): unknown => {
    try {
      return keepsNameConstraints(damaged);
    } catch (error) {
      return error instanceof RangeError || "another error";
    }
  };
  hold(
    property(constantFrom(0, 1), nat(), nat(255), (which, place, value) => {
      const damaged = path.map((raw) => Buffer.from(raw));
      const target = damaged[which] as Buffer;
      target.writeUInt8(value, place % target.length);
      return outcome(damaged) !== "another error";
    }),
    { numRuns: 2_000 },
  );
});

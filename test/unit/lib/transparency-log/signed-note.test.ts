import { generateKeyPairSync, sign } from "node:crypto";
import { describe, expect, test } from "vitest";
import { formatVerifierKey, noteKeyId } from "#compliance/checkpoint-key.ts";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import {
  NoteError,
  openCheckpoint,
  openNote,
  parseVerifierKey,
  VerifierKeyError,
} from "#lib/transparency-log/signed-note.ts";
import { CRYPTOS } from "#test/support/proof-crypto.ts";

/** The example of c2sp.org/signed-note. */
const SPECIFIED_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const SPECIFIED_NOTE =
  "This is an example message.\n\n" +
  "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const RAW = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");

function signed(text: string, name = "log.example"): string {
  const signature = Buffer.concat([noteKeyId(name, RAW), sign(null, Buffer.from(text), privateKey)]);
  return `${text}\n— ${name} ${signature.toString("base64")}\n`;
}

const KEY = await parseVerifierKey(formatVerifierKey("log.example", RAW), NODE_CRYPTO);
const SPECIFIED = await parseVerifierKey(SPECIFIED_KEY, NODE_CRYPTO);
const ROOT = Buffer.alloc(32, 7).toString("base64");

describe.each(CRYPTOS)("with %s's cryptography", (_whose, crypto) => {
  describe("the example of the specification", () => {
    test("is parsed", async () => {
      const key = await parseVerifierKey(SPECIFIED_KEY, crypto);
      expect(key).toMatchObject({ name: "example.com/foo", id: "530d903a" });
      expect(await openNote(SPECIFIED_NOTE, [key], crypto)).toBe("This is an example message.\n");
    });

    test("is reproduced exactly", () => {
      const raw = Buffer.from("e932791ae6e7a840a46164c904786426d5e7821dd8b29a00d61cae72afdd4da4", "hex");
      expect(formatVerifierKey("example.com/foo", raw)).toBe(SPECIFIED_KEY);
    });
  });

  describe("a note", () => {
    const keys = [KEY, SPECIFIED];

    test("is valid with one signature of a known key, even beside those of unknown keys", async () => {
      const other = SPECIFIED_NOTE.split("\n").at(2) ?? "";
      const note = `${signed("a\nb\n")}${other.replace("foo", "bar")}\n`;
      expect(await openNote(note, keys, crypto)).toBe("a\nb\n");
    });

    test.each([
      ["another text", (note: string) => note.replace("a\n", "b\n")],
      ["an invalid second signature", (note: string) => note + (SPECIFIED_NOTE.split("\n")[2] ?? "") + "\n"],
      ["no signature", () => "a\n\n"],
      ["no blank line", (note: string) => note.replace("\n\n", "\n")],
      ["no newline at the end", (note: string) => note.trimEnd()],
      ["a carriage return", (note: string) => note.replace("a\n", "a\r\n")],
      ["another spelling of the signature", (note: string) => note.replace(/=\n$/, "\n")],
      ["a line that is not a signature", (note: string) => `${note}hello\n`],
    ])("with %s is rejected", async (_what, change) => {
      await expect(openNote(change(signed("a\n")), keys, crypto)).rejects.toThrow(NoteError);
    });

    test("signed by unknown keys only is rejected", async () => {
      const opened = openNote(SPECIFIED_NOTE, [KEY], crypto);
      await expect(opened).rejects.toThrow(
        new VerifierKeyError("none of the given keys has signed the note"),
      );
    });
  });

  describe("a checkpoint", () => {
    test("names its log and its tree", async () => {
      expect(await openCheckpoint(signed(`log.example\n42\n${ROOT}\n`), [KEY], crypto)).toEqual({
        origin: "log.example",
        size: 42,
        root: new Uint8Array(32).fill(7),
      });
    });

    test.each([
      ["of another log", `other.example\n42\n${ROOT}\n`],
      ["without a size", `log.example\n\n${ROOT}\n`],
      ["with a size in another spelling", `log.example\n042\n${ROOT}\n`],
      ["with a short root", "log.example\n42\nAAAA\n"],
      ["with nothing else", "log.example\n"],
    ])("%s is rejected", async (_what, text) => {
      await expect(openCheckpoint(signed(text), [KEY], crypto)).rejects.toThrow(NoteError);
    });
  });

  test.each([
    "",
    "log.example",
    SPECIFIED_KEY.replace("530d903a", "530d903b"),
    SPECIFIED_KEY.replace("foo", "bar"),
    SPECIFIED_KEY.replace("+Aek", "+Bek"),
    SPECIFIED_KEY.slice(0, -4),
    SPECIFIED_KEY.replace(/k$/, "l"),
    ` a${SPECIFIED_KEY.replace("example", "exam ple")}`,
  ])("an invalid verifier key is rejected: %s", async (text) => {
    await expect(parseVerifierKey(text, crypto)).rejects.toThrow(VerifierKeyError);
  });
});

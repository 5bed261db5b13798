/**
 * Signed notes and the checkpoints of transparency logs (c2sp.org/signed-note, c2sp.org/tlog-checkpoint), Ed25519 only:
 * reading and verifying. src/compliance signs them.
 */
import { createPublicKey, hash, type KeyObject, verify } from "node:crypto";
import type { TreeHead } from "./merkle-proof.ts";

const ED25519 = 1;
const KEY_ID_BYTES = 4;
const PUBLIC_KEY_BYTES = 32;
const HASH_BYTES = 32;
const SIGNATURE_BYTES = 64;
const NAME = /^[^\s+]+$/u;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** RFC 8410: the prefix of the 32 bytes of an Ed25519 public key in DER. */
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
/** Maximum number of signatures of a note. */
const SIGNATURES_MAX = 64;

/** The note is malformed, or not signed by a trusted key. */
export class NoteError extends Error {
  override readonly name = "NoteError";
}

/** Decodes canonical base64; undefined if invalid. */
function strictBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return BASE64.test(text) && bytes.toString("base64") === text ? bytes : undefined;
}

export interface VerifierKey {
  readonly name: string;
  /** First four bytes of SHA-256 over name, newline, algorithm and key. */
  readonly id: Buffer;
  readonly publicKey: KeyObject;
}

/** The key named by a signature. */
export function noteKeyId(name: string, publicKey: Uint8Array): Buffer {
  const input = Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(ED25519), publicKey]);
  return hash("sha256", input, "buffer").subarray(0, KEY_ID_BYTES);
}

/** Returns the text form of a verifier key, `name+id+key`. */
export function formatVerifierKey(name: string, publicKey: Uint8Array): string {
  const key = Buffer.concat([Buffer.of(ED25519), publicKey]).toString("base64");
  return `${name}+${noteKeyId(name, publicKey).toString("hex")}+${key}`;
}

/**
 * Parses `name+id+key`, as printed by `signet keys checkpoint-key`.
 *
 * @throws NoteError if it is invalid
 */
export function parseVerifierKey(text: string): VerifierKey {
  const [name = "", id = "", ...rest] = text.trim().split("+");
  const key = strictBase64(rest.join("+"));
  if (!NAME.test(name) || !/^[0-9a-f]{8}$/.test(id) || key?.length !== 1 + PUBLIC_KEY_BYTES) {
    throw new NoteError("a verifier key is name+id+key");
  }
  const raw = key.subarray(1);
  if (key[0] !== ED25519 || noteKeyId(name, raw).toString("hex") !== id) {
    throw new NoteError("the verifier key is not an Ed25519 key, or its id does not match name and key");
  }
  const publicKey = createPublicKey({
    key: Buffer.concat([SPKI_PREFIX, raw]),
    format: "der",
    type: "spki",
  });
  return { name, id: Buffer.from(id, "hex"), publicKey };
}

interface Signature {
  readonly name: string;
  readonly id: Buffer;
  readonly signature: Buffer;
}

function parseSignature(line: string): Signature {
  const [, name = "", encoded = ""] = /^— (\S+) (\S+)$/u.exec(line) ?? [];
  const bytes = strictBase64(encoded);
  if (!NAME.test(name) || bytes === undefined || bytes.length <= KEY_ID_BYTES) {
    throw new NoteError("a signature line of the note is malformed");
  }
  return { name, id: bytes.subarray(0, KEY_ID_BYTES), signature: bytes.subarray(KEY_ID_BYTES) };
}

/**
 * Returns the text of a note that one of the keys has signed. Ignores signatures of unknown keys; an invalid one of a
 * known key invalidates the note.
 *
 * @throws NoteError if the note is malformed, or no key has signed it
 */
export function openNote(note: string, keys: readonly VerifierKey[]): string {
  const end = note.lastIndexOf("\n\n");
  const lines = note.slice(end + 2).split("\n");
  // oxlint-disable-next-line no-control-regex -- the format forbids these
  if (end === -1 || lines.pop() !== "" || lines.length > SIGNATURES_MAX || /[\0-\x09\x0b-\x1f]/.test(note)) {
    throw new NoteError("the note is malformed");
  }
  const text = note.slice(0, end + 1);
  let signed = false;
  for (const { name, id, signature } of lines.map(parseSignature)) {
    for (const key of keys.filter((known) => known.name === name && known.id.equals(id))) {
      if (
        signature.length !== SIGNATURE_BYTES ||
        !verify(null, Buffer.from(text), key.publicKey, signature)
      ) {
        throw new NoteError(`the signature of ${name} is invalid`);
      }
      signed = true;
    }
  }
  if (!signed) {
    throw new NoteError("none of the given keys has signed the note");
  }
  return text;
}

/** The content of a checkpoint. */
export interface Checkpoint extends TreeHead {
  /** The log's name, which is that of its key. */
  readonly origin: string;
  readonly root: Buffer;
}

/** Returns the text of a checkpoint for signing. */
export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString("base64")}\n`;
}

/**
 * Parses a checkpoint that one of the keys has signed for the log of its name.
 *
 * @throws NoteError if it is malformed or not signed accordingly
 */
export function openCheckpoint(note: string, keys: readonly VerifierKey[]): Checkpoint {
  const [origin = ""] = note.split("\n", 1);
  const text = openNote(
    note,
    keys.filter(({ name }) => name === origin),
  );
  const [, size = "", encoded = ""] = text.split("\n");
  const root = strictBase64(encoded);
  if (!/^(0|[1-9]\d{0,15})$/.test(size) || root?.length !== HASH_BYTES) {
    throw new NoteError("the checkpoint is malformed");
  }
  return { origin, size: Number(size), root };
}

/**
 * Signed notes and the checkpoints of transparency logs (c2sp.org/signed-note, c2sp.org/tlog-checkpoint), Ed25519 only:
 * reading and verifying. src/compliance signs them.
 */
import { concatBytes, decodeBase64, encodeHex } from "./bytes.ts";
import type { Sha256, TreeHead } from "./merkle-proof.ts";

const ED25519 = 1;
/** Length of a key's id. */
export const KEY_ID_BYTES = 4;
const PUBLIC_KEY_BYTES = 32;
const HASH_BYTES = 32;
const SIGNATURE_BYTES = 64;
const NAME = /^[^\s+]+$/u;
/** Maximum number of signatures of a note. */
const SIGNATURES_MAX = 64;

/** The note is malformed, or not signed by a trusted key. */
export class NoteError extends Error {
  override readonly name = "NoteError";
}

/** The verifier key is invalid, or did not sign the note. */
export class VerifierKeyError extends NoteError {}

/** The cryptography of a platform: Node's is `NODE_CRYPTO`, the portal has a browser's. */
export interface ProofCrypto {
  readonly sha256: Sha256;
  /** Verifies an Ed25519 signature by a raw public key of 32 bytes. */
  readonly verify: (
    publicKey: Uint8Array,
    text: Uint8Array,
    signature: Uint8Array,
  ) => boolean | Promise<boolean>;
}

export interface VerifierKey {
  readonly name: string;
  /** First four bytes of SHA-256 over name, newline, algorithm and key; hexadecimal. */
  readonly id: string;
  /** Raw, 32 bytes. */
  readonly publicKey: Uint8Array;
}

const utf8 = new TextEncoder();
const keyIdOf = (digest: Uint8Array): string => encodeHex(digest.subarray(0, KEY_ID_BYTES));

/** Returns algorithm and key, as verifier keys contain them. */
export function encodeKey(publicKey: Uint8Array): Uint8Array {
  return concatBytes(Uint8Array.of(ED25519), publicKey);
}

/** Returns what is hashed for a key's id. */
export function keyIdInput(name: string, publicKey: Uint8Array): Uint8Array {
  return concatBytes(utf8.encode(`${name}\n`), encodeKey(publicKey));
}

/**
 * Parses `name+id+key`, as printed by `signet keys checkpoint-key`.
 *
 * @throws NoteError if it is invalid
 */
export async function parseVerifierKey(text: string, { sha256 }: ProofCrypto): Promise<VerifierKey> {
  const [name = "", id = "", ...rest] = text.trim().split("+");
  const key = decodeBase64(rest.join("+"));
  if (!NAME.test(name) || !/^[0-9a-f]{8}$/.test(id) || key?.length !== 1 + PUBLIC_KEY_BYTES) {
    throw new VerifierKeyError("a verifier key is name+id+key");
  }
  const publicKey = key.subarray(1);
  if (key[0] !== ED25519 || keyIdOf(await sha256(keyIdInput(name, publicKey))) !== id) {
    throw new VerifierKeyError(
      "the verifier key is not an Ed25519 key, or its id does not match name and key",
    );
  }
  return { name, id, publicKey };
}

interface Signature {
  readonly name: string;
  readonly id: string;
  readonly signature: Uint8Array;
}

function parseSignature(line: string): Signature {
  const [, name = "", encoded = ""] = /^— (\S+) (\S+)$/u.exec(line) ?? [];
  const bytes = decodeBase64(encoded);
  if (!NAME.test(name) || bytes === undefined || bytes.length <= KEY_ID_BYTES) {
    throw new NoteError("a signature line of the note is malformed");
  }
  return { name, id: keyIdOf(bytes), signature: bytes.subarray(KEY_ID_BYTES) };
}

/**
 * Returns the text of a note that one of the keys has signed. Ignores signatures of unknown keys; an invalid one of a
 * known key invalidates the note.
 *
 * @throws NoteError if the note is malformed, or no key has signed it
 */
export async function openNote(
  note: string,
  keys: readonly VerifierKey[],
  { verify }: ProofCrypto,
): Promise<string> {
  const end = note.lastIndexOf("\n\n");
  const lines = note.slice(end + 2).split("\n");
  // oxlint-disable-next-line no-control-regex -- the format forbids these
  if (end === -1 || lines.pop() !== "" || lines.length > SIGNATURES_MAX || /[\0-\x09\x0b-\x1f]/.test(note)) {
    throw new NoteError("the note is malformed");
  }
  const text = note.slice(0, end + 1);
  let signed = false;
  for (const { name, id, signature } of lines.map(parseSignature)) {
    for (const { publicKey } of keys.filter((known) => known.name === name && known.id === id)) {
      if (signature.length !== SIGNATURE_BYTES || !(await verify(publicKey, utf8.encode(text), signature))) {
        throw new NoteError(`the signature of ${name} is invalid`);
      }
      signed = true;
    }
  }
  if (!signed) {
    throw new VerifierKeyError("none of the given keys has signed the note");
  }
  return text;
}

/** The content of a checkpoint. */
export interface Checkpoint extends TreeHead {
  /** The log's name, which is that of its key. */
  readonly origin: string;
}

/**
 * Parses the text of a checkpoint, without its signatures.
 *
 * @throws NoteError if it is malformed
 */
export function parseCheckpoint(text: string): Checkpoint {
  const [origin = "", size = "", encoded = ""] = text.split("\n");
  const root = decodeBase64(encoded);
  if (!/^(0|[1-9]\d{0,15})$/.test(size) || root?.length !== HASH_BYTES) {
    throw new NoteError("the checkpoint is malformed");
  }
  return { origin, size: Number(size), root };
}

/**
 * Parses a checkpoint that one of the keys has signed for the log of its name.
 *
 * @throws NoteError if it is malformed or not signed accordingly
 */
export async function openCheckpoint(
  note: string,
  keys: readonly VerifierKey[],
  crypto: ProofCrypto,
): Promise<Checkpoint> {
  const [origin = ""] = note.split("\n", 1);
  const ofLog = keys.filter(({ name }) => name === origin);
  return parseCheckpoint(await openNote(note, ofLog, crypto));
}

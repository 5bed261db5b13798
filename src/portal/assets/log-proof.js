/*
 * Proofs of the compliance log, checked in a browser: signed notes (c2sp.org/signed-note, c2sp.org/tlog-checkpoint) and the
 * Merkle tree of RFC 6962. A port of src/lib/transparency-log/signed-note.ts, merkle-proof.ts and compliance-proof.ts to WebCrypto; one
 * test holds both to the same vectors. Needs nothing but `crypto.subtle`, `TextEncoder` and `atob`.
 */

const ED25519 = 1;
const KEY_ID_BYTES = 4;
const HASH_BYTES = 32;
const SIGNATURE_BYTES = 64;
const SIGNATURES_MAX = 64;
/** A proof has at most two for each level of a tree. */
const HASHES_MAX = 128;
const NAME = /^[^\s+]+$/u;
const HEX = /^(?:[0-9a-f]{64})$/;

/** What does not hold, or is no proof at all; `code` is "key" where none of the given keys has signed. */
export class ProofError extends Error {
  constructor(message, code = "proof") {
    super(message);
    this.name = "ProofError";
    this.code = code;
  }
}

const utf8 = new TextEncoder();

function concat(...parts) {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const equal = (one, other) =>
  one.length === other.length && one.every((byte, index) => byte === other[index]);
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", concat(...parts)));
}

/** Base64 in its one spelling, or nothing. */
function strictBase64(text) {
  try {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return btoa(String.fromCharCode(...bytes)) === text ? bytes : undefined;
  } catch {
    return undefined;
  }
}

/** Long texts too: an entry has no limit that a spread of its bytes would keep. */
function base64Bytes(text) {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    throw new ProofError("the entry is not base64");
  }
}

function hashesOf(list) {
  const isHash = (text) => typeof text === "string" && HEX.test(text);
  if (!Array.isArray(list) || list.length > HASHES_MAX || !list.every(isHash)) {
    throw new ProofError("the proof is not a list of hashes");
  }
  return list.map((text) => Uint8Array.from(text.match(/../g), (pair) => Number.parseInt(pair, 16)));
}

/** Whether this browser verifies Ed25519 signatures here: "yes", "insecure" (no HTTPS) or "no". */
export async function ability() {
  if (globalThis.crypto?.subtle === undefined) {
    return "insecure";
  }
  try {
    await importKey(new Uint8Array(HASH_BYTES));
    return "yes";
  } catch (error) {
    // A browser that knows the algorithm may refuse the point; one that does not says so.
    const unknown = error instanceof DOMException && error.name === "NotSupportedError";
    return unknown || error instanceof TypeError ? "no" : "yes";
  }
}

async function importKey(raw) {
  return await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
}

/**
 * Reads `name+id+key`, as `signet keys checkpoint-key` prints it.
 *
 * @throws ProofError when it is not one
 */
export async function parseVerifierKey(text) {
  const [name = "", id = "", ...rest] = text.trim().split("+");
  const key = strictBase64(rest.join("+"));
  if (!NAME.test(name) || !/^[0-9a-f]{8}$/.test(id) || key?.length !== 1 + HASH_BYTES) {
    throw new ProofError("a verifier key is name+id+key", "malformed-key");
  }
  const digest = await sha256(utf8.encode(`${name}\n`), key);
  if (key[0] !== ED25519 || hexOf(digest.subarray(0, KEY_ID_BYTES)) !== id) {
    throw new ProofError(
      "the verifier key is no Ed25519 key, or its id is not of this name and key",
      "malformed-key",
    );
  }
  return { name, id, publicKey: await importKey(key.subarray(1)) };
}

function parseSignature(line) {
  const [, name = "", encoded = ""] = /^— (\S+) (\S+)$/u.exec(line) ?? [];
  const bytes = strictBase64(encoded);
  if (!NAME.test(name) || bytes === undefined || bytes.length <= KEY_ID_BYTES) {
    throw new ProofError("a signature line of the note is malformed");
  }
  return { name, id: hexOf(bytes.subarray(0, KEY_ID_BYTES)), signature: bytes.subarray(KEY_ID_BYTES) };
}

/**
 * The text of a note that one of the keys has signed. Signatures of unknown keys are passed over; one of a known key that
 * does not hold spoils the note.
 *
 * @throws ProofError when the note is malformed, or no key has signed it
 */
export async function openNote(note, keys) {
  const end = note.lastIndexOf("\n\n");
  const lines = note.slice(end + 2).split("\n");
  // oxlint-disable-next-line no-control-regex -- that is what the form forbids
  if (end === -1 || lines.pop() !== "" || lines.length > SIGNATURES_MAX || /[\0-\x09\x0b-\x1f]/.test(note)) {
    throw new ProofError("the note is malformed");
  }
  const text = note.slice(0, end + 1);
  let signed = false;
  for (const { name, id, signature } of lines.map(parseSignature)) {
    for (const key of keys.filter((known) => known.name === name && known.id === id)) {
      const holds =
        signature.length === SIGNATURE_BYTES &&
        (await crypto.subtle.verify({ name: "Ed25519" }, key.publicKey, signature, utf8.encode(text)));
      if (!holds) {
        throw new ProofError(`the signature of ${name} does not hold`);
      }
      signed = true;
    }
  }
  if (!signed) {
    throw new ProofError("none of the given keys has signed the note", "key");
  }
  return text;
}

/**
 * Reads a checkpoint that one of the keys has signed for the log of its name.
 *
 * @throws ProofError when it is malformed or not signed so
 */
export async function openCheckpoint(note, keys) {
  const [origin = ""] = note.split("\n", 1);
  const text = await openNote(
    note,
    keys.filter(({ name }) => name === origin),
  );
  const [, size = "", encoded = ""] = text.split("\n");
  const root = strictBase64(encoded);
  if (!/^(0|[1-9]\d{0,15})$/.test(size) || root?.length !== HASH_BYTES) {
    throw new ProofError("the checkpoint is malformed");
  }
  return { origin, size: Number(size), root };
}

/** Hash of an entry (RFC 6962 section 2.1). */
export const leafHash = async (entry) => await sha256(Uint8Array.of(0), entry);
/** Hash of an inner node. */
export const nodeHash = async (left, right) => await sha256(Uint8Array.of(1), left, right);

// Sizes go beyond 2^31, so halves are taken by division and never by `>>`.
const half = (value) => Math.floor(value / 2);
const isOdd = (value) => value % 2 === 1;
const isTreeSize = (value) => Number.isSafeInteger(value) && value >= 0;

/**
 * Goes from a node up to the root, of which `last` is the rightmost node of the same level, and shows each sibling of the
 * way with its side. False when there are too few or too many hashes, or one that is none.
 */
async function climb(node, last, hashes, take) {
  let [at, end] = [node, last];
  for (const sibling of hashes) {
    if (end === 0 || sibling.length !== HASH_BYTES) {
      return false;
    }
    const left = isOdd(at) || at === end;
    await take(sibling, left);
    if (left) {
      // On the right edge, levels whose node has no sibling are passed over.
      while (!isOdd(at) && at !== 0) {
        [at, end] = [half(at), half(end)];
      }
    }
    [at, end] = [half(at), half(end)];
  }
  return end === 0;
}

/** Whether the entry of this leaf hash stands at its place in the tree with this root (RFC 9162 section 2.1.3.2). */
export async function verifyInclusion({ index, treeSize, hashes }, leaf, root) {
  if (!isTreeSize(index) || !isTreeSize(treeSize) || index >= treeSize) {
    return false;
  }
  let computed = leaf;
  const whole = await climb(index, treeSize - 1, hashes, async (sibling, left) => {
    computed = await (left ? nodeHash(sibling, computed) : nodeHash(computed, sibling));
  });
  return whole && equal(computed, root);
}

/** Whether the larger tree begins with all the entries of the smaller one (RFC 9162 section 2.1.4.2). */
export async function verifyConsistency(smaller, larger, hashes) {
  if (!isTreeSize(smaller.size) || !isTreeSize(larger.size) || smaller.size > larger.size) {
    return false;
  }
  if (smaller.size === larger.size || smaller.size === 0) {
    return hashes.length === 0 && (smaller.size === 0 || equal(smaller.root, larger.root));
  }
  // Compared and not asked of the logarithm, which rounds.
  const isPowerOfTwo = 2 ** Math.round(Math.log2(smaller.size)) === smaller.size;
  const [first, rest] = isPowerOfTwo ? [smaller.root, hashes] : [hashes[0], hashes.slice(1)];
  if (first === undefined || hashes.length === 0) {
    return false;
  }
  let [node, last] = [smaller.size - 1, larger.size - 1];
  while (isOdd(node)) {
    [node, last] = [half(node), half(last)];
  }
  let [old, computed] = [first, first];
  const whole = await climb(node, last, rest, async (sibling, left) => {
    old = left ? await nodeHash(sibling, old) : old;
    computed = await (left ? nodeHash(sibling, computed) : nodeHash(computed, sibling));
  });
  return whole && equal(old, smaller.root) && equal(computed, larger.root);
}

async function requireContinued(answer, kept, newest) {
  if (kept.size > newest.size) {
    throw new ProofError(
      `the log has ${newest.size} entries and had ${kept.size} when this browser looked last: some are missing`,
    );
  }
  if (!(await verifyConsistency(kept, newest, hashesOf(answer.consistency ?? [])))) {
    throw new ProofError(
      `the log does not continue the ${kept.size} entries that this browser saw last: it was written anew`,
    );
  }
}

/**
 * Checks an entry by what the service answers; nothing of that is believed.
 *
 * @param index place of the entry, as it was asked for
 * @param answer `{entry, note, hashes, consistency?}`: base64, signed note, hexadecimal hashes
 * @param options `key`: one verifier key, `name+id+key`; `earlier`: a note that was checked before with this key, which the
 *   log must continue
 * @returns what the signed bytes say, and the checkpoint
 * @throws ProofError
 */
export async function checkEntry(index, answer, { key, earlier }) {
  const keys = [await parseVerifierKey(key)];
  const newest = await openCheckpoint(String(answer.note), keys);
  if (earlier !== undefined) {
    await requireContinued(answer, await openCheckpoint(earlier, keys), newest);
  }
  const bytes = base64Bytes(String(answer.entry));
  const proof = { index, treeSize: newest.size, hashes: hashesOf(answer.hashes) };
  if (!(await verifyInclusion(proof, await leafHash(bytes), newest.root))) {
    throw new ProofError(`entry ${index} is not in the tree that the checkpoint was signed over`);
  }
  const entry = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  return { entry, size: newest.size, origin: newest.origin, root: hexOf(newest.root), note: answer.note };
}

/** How many entries a note says that it is over; for asking, and for nothing else. */
export function sizeOf(note) {
  const size = Number(note.split("\n", 2)[1]);
  return isTreeSize(size) ? size : undefined;
}

/*
 * Verifies proofs of the compliance log in a browser: signed notes (c2sp.org/signed-note, c2sp.org/tlog-checkpoint) and
 * the Merkle tree of RFC 6962. This is a port of signed-note.ts, merkle-proof.ts and compliance-proof.ts in
 * src/lib/transparency-log to WebCrypto. One test checks both against the same vectors. It needs only `crypto.subtle`,
 * `TextEncoder` and `atob`.
 */

const ED25519 = 1;
const KEY_ID_BYTES = 4;
const HASH_BYTES = 32;
const SIGNATURE_BYTES = 64;
const SIGNATURES_MAX = 64;
/** A proof has at most two hashes for each level of a tree. */
const HASHES_MAX = 128;
const NAME = /^[^\s+]+$/u;
const HEX = /^(?:[0-9a-f]{64})$/;

/** The proof is invalid or malformed; `code` is "key" if none of the given keys signed the note. */
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

/** Decodes canonical base64; returns undefined for anything else. */
function strictBase64(text) {
  try {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return btoa(String.fromCharCode(...bytes)) === text ? bytes : undefined;
  } catch {
    return undefined;
  }
}

/** Decodes base64 of any length; spreading the bytes as arguments, as strictBase64 does, fails for a long entry. */
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

/** Returns whether this browser can verify Ed25519 signatures here: "yes", "insecure" (no HTTPS) or "no". */
export async function ability() {
  if (globalThis.crypto?.subtle === undefined) {
    return "insecure";
  }
  try {
    await importKey(new Uint8Array(HASH_BYTES));
    return "yes";
  } catch (error) {
    // A browser that supports the algorithm may reject the point; others report that the algorithm is not supported.
    const unknown = error instanceof DOMException && error.name === "NotSupportedError";
    return unknown || error instanceof TypeError ? "no" : "yes";
  }
}

async function importKey(raw) {
  return await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
}

/**
 * Parses `name+id+key`, as `signet keys checkpoint-key` prints it.
 *
 * @throws ProofError if the key is malformed
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
      "the verifier key is not an Ed25519 key, or its id does not match its name and key",
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
 * Returns the text of a note that one of the keys signed. Ignores signatures of unknown keys. An invalid signature of a
 * known key makes the note invalid.
 *
 * @throws ProofError if the note is malformed or invalid, or no key signed it
 */
export async function openNote(note, keys) {
  const end = note.lastIndexOf("\n\n");
  const lines = note.slice(end + 2).split("\n");
  // oxlint-disable-next-line no-control-regex -- the format forbids them
  if (end === -1 || lines.pop() !== "" || lines.length > SIGNATURES_MAX || /[\0-\x09\x0b-\x1f]/.test(note)) {
    throw new ProofError("the note is malformed");
  }
  const text = note.slice(0, end + 1);
  let signed = false;
  for (const { name, id, signature } of lines.map(parseSignature)) {
    for (const key of keys.filter((known) => known.name === name && known.id === id)) {
      const isValid =
        signature.length === SIGNATURE_BYTES &&
        (await crypto.subtle.verify({ name: "Ed25519" }, key.publicKey, signature, utf8.encode(text)));
      if (!isValid) {
        throw new ProofError(`the signature of ${name} is not valid`);
      }
      signed = true;
    }
  }
  if (!signed) {
    throw new ProofError("none of the given keys signed the note", "key");
  }
  return text;
}

/**
 * Reads a checkpoint that one of the keys signed for the log with the key's name.
 *
 * @throws ProofError if the checkpoint is malformed or not signed by such a key
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

// Sizes can exceed 2^31, so halve them by division, never by `>>`.
const half = (value) => Math.floor(value / 2);
const isOdd = (value) => value % 2 === 1;
const isTreeSize = (value) => Number.isSafeInteger(value) && value >= 0;

/**
 * Climbs from a node to the root, and passes each sibling on the path and its side to `take`. `last` is the rightmost
 * node of the same level. Returns false if there are too few or too many hashes, or one has the wrong length.
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
      // On the right edge, skip levels whose node has no sibling.
      while (!isOdd(at) && at !== 0) {
        [at, end] = [half(at), half(end)];
      }
    }
    [at, end] = [half(at), half(end)];
  }
  return end === 0;
}

/** Checks that the leaf is at its index in the tree with this root (RFC 9162 section 2.1.3.2). */
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

/** Checks that the larger tree begins with all entries of the smaller one (RFC 9162 section 2.1.4.2). */
export async function verifyConsistency(smaller, larger, hashes) {
  if (!isTreeSize(smaller.size) || !isTreeSize(larger.size) || smaller.size > larger.size) {
    return false;
  }
  if (smaller.size === larger.size || smaller.size === 0) {
    return hashes.length === 0 && (smaller.size === 0 || equal(smaller.root, larger.root));
  }
  // Compare the power with the size, because the logarithm is rounded.
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
      `the log has ${newest.size} entries, but had ${kept.size} when this browser last checked it: entries are missing`,
    );
  }
  if (!(await verifyConsistency(kept, newest, hashesOf(answer.consistency ?? [])))) {
    throw new ProofError(
      `the log does not continue the ${kept.size} entries that this browser last checked: it was rewritten`,
    );
  }
}

/**
 * Verifies an entry with the service's answer, without trust in the answer.
 *
 * @param index index of the requested entry
 * @param answer `{entry, note, hashes, consistency?}`: base64, signed note, hexadecimal hashes
 * @param options `key`: one verifier key, `name+id+key`; `earlier`: a note that was verified with this key before, which
 *   the log must continue
 * @returns the signed entry and the checkpoint
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
    throw new ProofError(`entry ${index} is not in the tree that the checkpoint signs`);
  }
  const entry = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  return { entry, size: newest.size, origin: newest.origin, root: hexOf(newest.root), note: answer.note };
}

/** Returns the unverified number of entries in a note; use it only for requests. */
export function sizeOf(note) {
  const size = Number(note.split("\n", 2)[1]);
  return isTreeSize(size) ? size : undefined;
}

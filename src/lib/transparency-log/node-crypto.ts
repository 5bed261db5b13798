/** Node's cryptography for proofs, and the hashes of RFC 6962 for those who build trees. */
import { createPublicKey, hash, type KeyObject, verify } from "node:crypto";
import { soundKey } from "../public-key.ts";
import { leafInput, nodeInput } from "./merkle-proof.ts";
import type { ProofCrypto } from "./signed-note.ts";

/** RFC 8410: the prefix of the 32 bytes of an Ed25519 public key in DER. */
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");

/** Via a string, which takes Node a third of the time of a buffer with its own memory. */
export function sha256(input: Uint8Array): Buffer {
  return Buffer.from(hash("sha256", input, "binary"), "binary");
}

/** Returns the hash of an entry. */
export function leafHash(entry: Uint8Array): Buffer {
  return sha256(leafInput(entry));
}

/** Returns the hash of an inner node. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return sha256(nodeInput(left, right));
}

/** Parsing a key takes as long as verifying a signature, and a log has a checkpoint for each minute. */
const parsed = new WeakMap<Uint8Array, KeyObject>();

function keyObject(publicKey: Uint8Array): KeyObject {
  const der = Buffer.concat([SPKI_PREFIX, publicKey]);
  const key = parsed.get(publicKey) ?? soundKey(createPublicKey({ key: der, format: "der", type: "spki" }));
  parsed.set(publicKey, key);
  return key;
}

export const NODE_CRYPTO: ProofCrypto = {
  sha256,
  verify: (publicKey, text, signature) => verify(null, text, keyObject(publicKey), signature),
};

/**
 * The key that signs checkpoints of the compliance log. It must never sign tokens or be in the database: those who can
 * change the log must not be able to sign it.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import { sha256 } from "#lib/transparency-log/node-crypto.ts";
import { type Checkpoint, encodeKey, KEY_ID_BYTES, keyIdInput } from "#lib/transparency-log/signed-note.ts";

/** RFC 8410: the DER bytes before the 32 bytes of an Ed25519 private key. */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");

function publicBytes(key: KeyObject): Buffer {
  return Buffer.from(createPublicKey(key).export({ format: "jwk" }).x ?? "", "base64url");
}

/** The key named by a signature. */
export function noteKeyId(name: string, publicKey: Uint8Array): Buffer {
  return sha256(keyIdInput(name, publicKey)).subarray(0, KEY_ID_BYTES);
}

/** Returns the text form of a verifier key, `name+id+key`. */
export function formatVerifierKey(name: string, publicKey: Uint8Array): string {
  const key = Buffer.from(encodeKey(publicKey)).toString("base64");
  return `${name}+${noteKeyId(name, publicKey).toString("hex")}+${key}`;
}

/** Returns the text of a checkpoint for signing. */
function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${Buffer.from(root).toString("base64")}\n`;
}

/** The key of a log. */
export class CheckpointKey {
  /** Name of the log and of the key. */
  readonly name: string;
  /** Raw public key, 32 bytes. */
  readonly publicKey: Buffer;
  /** The key for verifiers: `name+id+key`. */
  readonly verifierKey: string;
  readonly #key: KeyObject;

  /**
   * @param name name of the log, without white space and `+`; best a host and a path, as `signet.example.com/compliance`
   * @param seed 32 secret bytes (RFC 8032)
   */
  constructor(name: string, seed: Uint8Array) {
    const der = Buffer.concat([PKCS8_PREFIX, seed]);
    this.#key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
    this.name = name;
    this.publicKey = publicBytes(this.#key);
    this.verifierKey = formatVerifierKey(name, this.publicKey);
  }

  /** Returns the signed note of a tree. */
  sign(tree: Omit<Checkpoint, "origin">): string {
    const text = formatCheckpoint({ ...tree, origin: this.name });
    const signature = sign(null, Buffer.from(text), this.#key);
    const named = Buffer.concat([noteKeyId(this.name, this.publicKey), signature]);
    return `${text}\n— ${this.name} ${named.toString("base64")}\n`;
  }
}

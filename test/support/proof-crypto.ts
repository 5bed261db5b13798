/** The platforms whose cryptography verifies proofs. Node has a browser's too. */
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import type { ProofCrypto } from "#lib/transparency-log/signed-note.ts";
import { WEB_CRYPTO } from "#portal/browser/web-crypto.ts";

export const CRYPTOS: readonly (readonly [string, ProofCrypto])[] = [
  ["Node", NODE_CRYPTO],
  ["a browser", WEB_CRYPTO],
];

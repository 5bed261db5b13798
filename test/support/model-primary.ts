/** The primary of simulated hubs. */
import { hash } from "node:crypto";
import type { Reply, Request } from "#revocation/hub-messages.ts";
import { rootOf } from "#revocation/nonce-tree.ts";
import {
  leaseStatement,
  nextHead,
  type Proof,
  revocationStatement,
  type SequenceState,
  type Snapshot,
  snapshotStatement,
} from "#revocation/proof.ts";

const EPOCH = "00000000-0000-4000-8000-000000000000";
/** The text of its verification keys. */
export const KEYS = "[]";
const KEYS_DIGEST = hash("sha256", KEYS);

function proofTo(nonce: string, primary: ModelPrimary): Reply {
  const root = rootOf(Buffer.from(nonce, "base64url"), [[]])?.toString("hex") ?? "";
  return { type: "proof", nonce, trees: [[]], ...primary.proofOf(root) };
}

/** A primary in memory. Its code of a statement is the statement itself, and nobody else makes codes. */
export class ModelPrimary {
  readonly lines: string[] = [];
  readonly heads: string[] = ["00".repeat(32)];
  /** Its clock, in microseconds. */
  nowUs = 1_000;

  get state(): SequenceState {
    return { epoch: EPOCH, sequence: this.lines.length, head: this.heads.at(-1) ?? "" };
  }

  /** Revokes a tenant, or another target. @returns the notice of the commit */
  commit(target: string, kind = "tenant"): Extract<Reply, { type: "line" }> {
    const line = `${this.lines.length + 1}:${kind}:${target}:${this.nowUs}:`;
    this.heads.push(nextHead(this.state.head, line));
    this.lines.push(line);
    return { type: "line", line, ...this.state, codes: revocationStatement(this.state) };
  }

  /** Proves the state over the root of a hub's nonces, in hexadecimal. */
  proofOf(root: string): Proof {
    const proof = { ...this.state, keysDigest: KEYS_DIGEST, atUs: this.nowUs, codes: "" };
    return { ...proof, codes: leaseStatement(proof, root) };
  }

  snapshot(): Snapshot {
    const lines = this.lines.join("\n");
    return { ...this.state, lines, codes: snapshotStatement(this.state, hash("sha256", lines, "hex")) };
  }

  /** Answers a process as a hub without other processes would. */
  answer(request: Request): Reply[] {
    switch (request.type) {
      case "nonce":
        return [proofTo(request.nonce, this)];
      case "lines":
        return [{ type: "lines", lines: this.lines.slice(request.after) }];
      case "keys":
        return [{ type: "keys", keys: KEYS }];
      case "snapshot": {
        const { lines: text, ...head } = this.snapshot();
        return [
          { type: "snapshot", chunks: 1, ...head },
          { type: "chunk", text },
        ];
      }
      case "more":
      case "follow":
      case "applied":
      case "gone":
        return [];
      default:
        return request satisfies never;
    }
  }
}

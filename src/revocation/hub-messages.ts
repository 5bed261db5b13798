/**
 * Messages between a hub and a process or hub behind it: JSON texts over one connection. What a hub says counts only
 * as far as the primary has authenticated it (proof.ts); what a process says is about itself.
 */
import type { FollowerRow } from "#database/repositories/tokens/revocations.ts";
import type { Attestation, Proof } from "./proof.ts";
import type { Path } from "./nonce-tree.ts";

/** Version of these messages. A hub ends a connection of another one. */
export const HUB_PROTOCOL = 1;
/** Path of the hub's WebSocket. */
export const HUB_PATH = "/v1/revocations";
/** Maximum length of a hub's message, in bytes. */
export const HUB_MESSAGE_MAX = 4_194_304;
/** The same of a message to a hub: the longest introduces a follower. */
export const REQUEST_MAX = 4_096;
/** Maximum number of characters of lines in a message. */
export const CHUNK_CHARACTERS_MAX = 262_144;

/** From a process or hub to its hub. */
export type Request =
  /** First message: who follows. A hub also introduces the processes behind it. */
  | { readonly type: "follow"; readonly version: number; readonly follower: FollowerRow }
  /** Asks for a proof. The nonce has 32 bytes, in base64url. */
  | { readonly type: "nonce"; readonly nonce: string }
  /** Asks for the lines after a number. */
  | { readonly type: "lines"; readonly after: number }
  | { readonly type: "snapshot" }
  /** Asks for another chunk of the snapshot, after one has been read. */
  | { readonly type: "more" }
  | { readonly type: "keys" }
  /** A process applies everything up to a number, for a time in milliseconds. */
  | {
      readonly type: "applied";
      readonly lockKey: number;
      readonly sequence: number;
      readonly sinceMs: number;
    }
  /** A process no longer follows over this connection; `stopped` if it no longer admits tokens. */
  | { readonly type: "gone"; readonly lockKey: number; readonly stopped: boolean };

/** From a hub. */
export type Reply =
  /** A revocation, at its commit. */
  | ({ readonly type: "line"; readonly line: string } & Attestation)
  | { readonly type: "lines"; readonly lines: readonly string[] }
  | ({ readonly type: "proof"; readonly nonce: string; readonly trees: readonly Path[] } & Proof)
  | { readonly type: "keys"; readonly keys: string }
  /** The head of a snapshot. As many messages with its lines follow, the first few without being asked for. */
  | ({ readonly type: "snapshot"; readonly chunks: number } & Attestation)
  | { readonly type: "chunk"; readonly text: string };

/** Maximum number of chunks of a snapshot: 256 MiB of text. */
const CHUNKS_MAX = 1_024;

/** Reads the messages of a snapshot in order. */
export class SnapshotReader {
  #head: Attestation | undefined;
  #left = 0;

  /** Whether chunks are missing. */
  get isReading(): boolean {
    return this.#head !== undefined;
  }

  /** Takes a message of a hub. @returns the head of the snapshot after its last chunk */
  read(reply: Extract<Reply, { type: "snapshot" | "chunk" }>): Attestation | "reading" | "malformed" {
    if (reply.type === "snapshot") {
      const { chunks, epoch, sequence, head, codes } = reply;
      if (chunks < 0 || chunks > CHUNKS_MAX) {
        return "malformed";
      }
      this.#head = { epoch, sequence, head, codes };
      this.#left = chunks;
    } else {
      this.#left -= 1;
    }
    const head = this.#head;
    if (head === undefined) {
      return "malformed";
    }
    if (this.#left > 0) {
      return "reading";
    }
    this.#head = undefined;
    return head;
  }
}

/** One end of a connection. */
export interface HubConnection {
  send(text: string): void;
  /** Bytes that wait to be sent. */
  readonly backlog: number;
  /** SHA-256 of the other side's certificate, in hexadecimal; undefined in development. */
  readonly certificate?: string | undefined;
  /** Whether the other side is a hub, which introduces the processes behind it. */
  readonly relays?: boolean;
  /** Stops to read, or goes on. */
  pause?(paused: boolean): void;
  /** Asks the other side for a sign of life, whatever it has to say otherwise. */
  ping?(): void;
  close(): void;
}

/** What happens on a connection. */
export interface HubConnectionHandlers {
  onMessage(text: string): void;
  /** Called when the other side answers {@link HubConnection.ping}. */
  onPong?(): void;
  /** Called once. */
  onClose(error?: Error): void;
}

/** Opens a connection to a hub. Rejects if that fails, or if the signal ends it before. */
export type OpenHubConnection = (
  url: string,
  handlers: HubConnectionHandlers,
  signal?: AbortSignal,
) => Promise<HubConnection>;

const FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  nonce: { nonce: "string" },
  lines: { after: "number" },
  snapshot: {},
  more: {},
  keys: {},
  applied: { lockKey: "number", sequence: "number", sinceMs: "number" },
  gone: { lockKey: "number", stopped: "boolean" },
  follow: { version: "number", follower: "object" },
};

const REPLY_FIELDS: typeof FIELDS = {
  line: { line: "string", epoch: "string", sequence: "number", head: "string", codes: "string" },
  lines: { lines: "strings" },
  proof: {
    nonce: "string",
    trees: "paths",
    epoch: "string",
    sequence: "number",
    head: "string",
    codes: "string",
    keysDigest: "string",
    atUs: "number",
  },
  keys: { keys: "string" },
  snapshot: { chunks: "number", epoch: "string", sequence: "number", head: "string", codes: "string" },
  chunk: { text: "string" },
};

function isStrings(value: unknown): boolean {
  return Array.isArray(value) && value.every((part) => typeof part === "string");
}

function isOf(value: unknown, kind: string): boolean {
  if (kind === "strings") {
    return isStrings(value);
  }
  if (kind === "paths") {
    return Array.isArray(value) && value.every(isStrings);
  }
  if (kind === "number") {
    return Number.isSafeInteger(value);
  }
  return typeof value === kind && value !== null;
}

function read<T>(text: string, fields: typeof FIELDS): T | undefined {
  let message: Readonly<Record<string, unknown>>;
  try {
    message = JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch {
    return undefined;
  }
  const { type } = message ?? {};
  const wanted = typeof type === "string" && Object.hasOwn(fields, type) ? fields[type] : undefined;
  return wanted !== undefined && Object.entries(wanted).every(([name, kind]) => isOf(message[name], kind))
    ? (message as T)
    : undefined;
}

const KIND = /^[a-z]{1,20}$/;
/** 32 bytes in base64url. It is sent back as it is. */
const NONCE = /^[A-Za-z0-9_-]{43}$/;
const TEXT_LENGTH_MAX = 64;
const LEASE_MS_MAX = 900_000;
const LOCK_KEY_END = 2 ** 31;

function isFollower(follower: Partial<FollowerRow>): boolean {
  const { lockKey, process, region, version, leaseMs } = follower;
  return (
    Number.isSafeInteger(lockKey) &&
    Number(lockKey) >= 0 &&
    Number(lockKey) < LOCK_KEY_END &&
    typeof process === "string" &&
    KIND.test(process) &&
    (region === null || (typeof region === "string" && region.length <= TEXT_LENGTH_MAX)) &&
    typeof version === "string" &&
    version.length <= TEXT_LENGTH_MAX &&
    Number.isSafeInteger(leaseMs) &&
    Number(leaseMs) > 0 &&
    Number(leaseMs) <= LEASE_MS_MAX
  );
}

/** Reads a message to a hub. Undefined if malformed. */
export function readRequest(text: string): Request | undefined {
  const request = read<Request>(text, FIELDS);
  if (request?.type === "follow") {
    return request.version === HUB_PROTOCOL && isFollower(request.follower) ? request : undefined;
  }
  if (request?.type === "nonce") {
    return NONCE.test(request.nonce) ? request : undefined;
  }
  return request;
}

/** Reads a hub's message. Undefined if malformed. */
export function readReply(text: string): Reply | undefined {
  return read<Reply>(text, REPLY_FIELDS);
}

/**
 * For verifiers of access tokens that are not edges: whether a token is revoked, from its issuer's status list
 * (draft-ietf-oauth-status-list). Uses only Node's own modules.
 */
import { createPublicKey, type JsonWebKey } from "node:crypto";
import { inflateSync } from "node:zlib";
import { readBody } from "../bounded-body.ts";
import { verifySignature } from "../jws.ts";
import { checkFunctions, checkNumbers, readText } from "../options.ts";
import { soundKey } from "../public-key.ts";

const TIMEOUT_MS = 5_000;
const JWKS_KEPT_MS = 300_000;
/** Pause after a failed request, in milliseconds, so that an unavailable issuer does not delay every token. */
const RETRY_MS = 1_000;
const BYTES_MAX = 1_048_576;
const LISTS_MAX = 100;
const SKEW_SECONDS = 5;
const STATUS_LIST_JWT = "application/statuslist+jwt";

/** `STATUS_MISSING`: the token names no list. `LIST_INVALID`, `LIST_UNAVAILABLE`: nothing is known about the token. */
export type StatusListErrorCode = "STATUS_MISSING" | "LIST_INVALID" | "LIST_UNAVAILABLE";

/** Nothing is known about a token, so it must be rejected. */
export class StatusListError extends Error {
  override readonly name = "StatusListError";
  readonly code: StatusListErrorCode;
  constructor(code: StatusListErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

export interface StatusListOptions {
  /** `iss` of the tokens; its key set and its lists are below this address. */
  readonly issuer: string;
  /** How long a list may be used after its `ttl` while the issuer is unavailable, in seconds; 0 by default. */
  readonly staleSeconds?: number;
  readonly fetch?: typeof fetch;
  /** Unix milliseconds. */
  readonly now?: () => number;
}

interface List {
  readonly bits: Buffer;
  readonly usableUntil: number;
  freshUntil: number;
}
type Claims = Readonly<Record<string, unknown>>;

/** A list whose signature is not verified yet. */
interface Token {
  readonly typ: unknown;
  readonly kid: unknown;
  readonly alg: unknown;
  readonly signed: Buffer;
  readonly signature: Buffer;
  readonly claims: () => Claims;
}

interface Answer {
  readonly body: Buffer;
  readonly ageSeconds: number;
}

interface KeySet {
  readonly at: number;
  readonly keys: readonly (JsonWebKey & Claims)[];
}

/** Reads lists, verifies them, and keeps each for its `ttl`. Use one client for all requests. */
export class StatusListClient {
  readonly #options: Required<StatusListOptions>;
  readonly #lists = new Map<string, List>();
  readonly #reading = new Map<string, Promise<List>>();
  #keys: KeySet = { at: 0, keys: [] };

  /** @throws TypeError that names an option which is wrong */
  constructor(options: StatusListOptions) {
    const { staleSeconds = 0, fetch = globalThis.fetch, now = Date.now } = options;
    const issuer = readText({ ...options }, "issuer");
    if (!URL.canParse(issuer)) {
      throw new TypeError("issuer is not a URL");
    }
    checkNumbers({ ...options }, ["staleSeconds"]);
    checkFunctions({ fetch, now }, ["fetch", "now"]);
    this.#options = { issuer, staleSeconds, fetch, now };
  }

  /**
   * Whether a token is revoked.
   *
   * @param claims the claims of a token whose signature, `iss`, `aud` and `exp` the caller has verified
   * @throws StatusListError if that is unknown: reject the token
   */
  async isRevoked(claims: Claims): Promise<boolean> {
    const { idx, uri } = (claims["status"] as { status_list?: Claims } | undefined)?.status_list ?? {};
    if (typeof uri !== "string" || typeof idx !== "number" || !Number.isSafeInteger(idx) || idx < 0) {
      throw new StatusListError("STATUS_MISSING", "the token names no status list");
    }
    const byte = (await this.#listAt(uri)).bits[Math.floor(idx / 8)];
    if (byte === undefined) {
      throw new StatusListError("LIST_INVALID", "the status list has no such place");
    }
    return ((byte >> (idx % 8)) & 1) === 1;
  }

  async #listAt(uri: string): Promise<List> {
    const kept = this.#lists.get(uri);
    if (kept !== undefined && this.#options.now() < kept.freshUntil) {
      return kept;
    }
    const reading = this.#reading.get(uri) ?? this.#read(uri).finally(() => this.#reading.delete(uri));
    this.#reading.set(uri, reading);
    try {
      return await reading;
    } catch (error) {
      const now = this.#options.now();
      if (kept !== undefined && now < kept.usableUntil) {
        kept.freshUntil = Math.min(now + RETRY_MS, kept.usableUntil);
        return kept;
      }
      const code = error instanceof StatusListError ? error.code : "LIST_UNAVAILABLE";
      throw new StatusListError(code, `the status list ${uri} cannot be used`, error);
    }
  }

  async #get(url: string, accept: string): Promise<Answer> {
    if (new URL(url).origin !== new URL(this.#options.issuer).origin) {
      throw new StatusListError("LIST_INVALID", "the status list is not the issuer's");
    }
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await this.#options.fetch(url, { headers: { accept }, redirect: "error", signal });
    const body = await readBody(response.body, BYTES_MAX);
    if (!response.ok) {
      throw new StatusListError("LIST_UNAVAILABLE", `${url} answers ${response.status}`);
    }
    const ageSeconds = Number(response.headers.get("age") ?? 0) || 0;
    return { body, ageSeconds };
  }

  async #read(uri: string): Promise<List> {
    const sentAt = this.#options.now();
    const { body, ageSeconds } = await this.#get(uri, STATUS_LIST_JWT);
    const { iss, sub, iat, exp, ttl, status_list: list } = await this.#verified(readJwt(body.toString()));
    const now = sentAt / 1_000;
    const isLive = Number(iat) <= now + SKEW_SECONDS && Number(exp) > now && Number(ttl) > 0;
    const packed = packedBits(list);
    if (iss !== this.#options.issuer || sub !== uri || packed === undefined || !isLive) {
      throw new StatusListError("LIST_INVALID", "the status list is another one, or not valid now");
    }
    const freshUntil = sentAt + Math.max(0, Number(ttl) - ageSeconds) * 1_000;
    const made: List = {
      bits: inflateSync(packed, { maxOutputLength: BYTES_MAX }),
      freshUntil: Math.min(freshUntil, Number(exp) * 1_000),
      usableUntil: Math.min(freshUntil + this.#options.staleSeconds * 1_000, Number(exp) * 1_000),
    };
    const [oldest] = this.#lists.size >= LISTS_MAX && !this.#lists.has(uri) ? this.#lists.keys() : [];
    this.#lists.delete(oldest ?? uri);
    this.#lists.set(uri, made);
    return made;
  }

  /** Returns the claims of a list that a published key of the issuer signed. */
  async #verified({ typ, kid, alg, signed, signature, claims }: Token): Promise<Claims> {
    const isOld = this.#options.now() - this.#keys.at > JWKS_KEPT_MS;
    if (isOld || !this.#keys.keys.some((key) => key["kid"] === kid)) {
      const { body } = await this.#get(`${this.#options.issuer}/.well-known/jwks.json`, "application/json");
      this.#keys = { ...(JSON.parse(body.toString()) as KeySet), at: this.#options.now() };
    }
    const jwk = this.#keys.keys.find((key) => key["kid"] === kid);
    // The key determines the algorithm (RFC 8725 section 3.1).
    if (jwk === undefined || alg !== jwk["alg"] || typ !== "statuslist+jwt") {
      throw new StatusListError("LIST_INVALID", "the status list is signed by no key of the issuer");
    }
    const key = soundKey(createPublicKey({ key: jwk, format: "jwk" }));
    if (!verifySignature(alg, signed, key, signature)) {
      throw new StatusListError("LIST_INVALID", "the signature of the status list is wrong");
    }
    return claims();
  }
}

/** Returns the compressed list of one bit per token; undefined for another. */
function packedBits(list: unknown): Buffer | undefined {
  const { bits, lst } = (list ?? {}) as Claims;
  return bits === 1 && typeof lst === "string" ? Buffer.from(lst, "base64url") : undefined;
}

function readJwt(jwt: string): Token {
  const [head = "", body = "", signature = ""] = jwt.split(".");
  const decode = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString()) as Claims;
  const { typ, kid, alg } = decode(head);
  return {
    typ,
    kid,
    alg,
    signed: Buffer.from(`${head}.${body}`),
    signature: Buffer.from(signature, "base64url"),
    claims: () => decode(body),
  };
}

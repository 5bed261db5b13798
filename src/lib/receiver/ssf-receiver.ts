/**
 * A receiver of security events (OpenID Shared Signals Framework 1.0, RFC 8417 and RFC 8935). It remembers what was
 * revoked, so that a service which verifies access tokens with a JWT library can deny revoked ones.
 */
import { createPublicKey, type JsonWebKey, timingSafeEqual } from "node:crypto";
import { readBody } from "../bounded-body.ts";
import { verifySignature } from "../jws.ts";
import { soundKey } from "../public-key.ts";
import { type HeaderSource, valuesOf } from "./headers.ts";
import { checkFunctions, checkNumbers, readText } from "../options.ts";
import { MemoryReplayStore } from "./replay-store.ts";
import { type Report, reporter } from "./report.ts";
import { checkUnread } from "./respond.ts";

type Members = Readonly<Record<string, unknown>>;

/** A verified token. */
export interface SecurityEventToken {
  readonly jti: string;
  /** Unix seconds. */
  readonly iat: number;
  /** The same for all events of one cause (SSF 1.0 section 4.1.9). */
  readonly txn: string | undefined;
  /** The subject (RFC 9493), for instance `{ format: "iss_sub", iss, sub }`. */
  readonly subId: Members;
  /** Events by the URI of their type. */
  readonly events: Readonly<Record<string, Members>>;
}

export interface SsfReceiverOptions {
  /** `iss` of the transmitter. */
  readonly issuer: string;
  /** `aud` of the stream. */
  readonly audience: string;
  /** Returns the transmitter's key set; by default from `/.well-known/jwks.json` of the issuer. */
  readonly fetchKeys?: () => Promise<unknown>;
  /** The Authorization header of pushes, as in the stream's `authorization_header`; by default it is not checked. */
  readonly authorization?: string;
  /**
   * Called once per token, before it is accepted. If it throws, the token is sent again; a {@link SetError} is the answer,
   * for instance `invalid_state` for a verification event with another `state` (SSF 1.0 section 8.1.4.1).
   */
  readonly onToken?: (token: SecurityEventToken) => unknown;
  /**
   * Receives refusals ({@link SetError}) and failures: of `onToken`, of the keys, of the memory. Without it, the first of
   * each kind is printed on standard error.
   */
  readonly onError?: (error: unknown) => unknown;
  /** Longest life of an access token, in seconds; 900. Revocations are remembered a little longer. */
  readonly tokenLifeSeconds?: number;
  /** Maximum number of revocations at a time; 100,000. Beyond it, tokens are answered 503, so that they come again. */
  readonly maxDenials?: number;
  /** Unix milliseconds; `Date.now` by default. */
  readonly now?: () => number;
}

/** Why a token was not accepted. `err` is a code of RFC 8935 section 2.4, which the receiver answers. */
export class SetError extends Error {
  override readonly name = "SetError";
  readonly err: string;

  constructor(err: string, description: string) {
    super(description);
    this.err = err;
  }
}

export interface SetAnswer {
  readonly status: 202 | 400 | 503;
  /** JSON; empty for 202. */
  readonly body: string;
  /** Send them too: a 400 needs the language of its description (RFC 8935 section 2.3). */
  readonly headers: Readonly<Record<string, string>>;
}

const SESSION_REVOKED = "https://schemas.openid.net/secevent/caep/event-type/session-revoked";
const ERROR_HEADERS = { "Content-Type": "application/json", "Content-Language": "en" } as const;
const MAX_BYTES = 65_536;
const SKEW_S = 60;
/** How far an issuer's clock may be ahead of the one that dates revocations, in seconds. */
const ISSUER_SKEW_S = 1;
const KEYS_FRESH_MS = 300_000;
const KEYS_AGAIN_MS = 10_000;
const KEYS_BYTES_MAX = 1_048_576;
const REMEMBER_MS = 864_000_000;

function objectIn(value: unknown): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SetError("invalid_request", "the token is malformed");
  }
  return value as Members;
}

function decode(part: string): Members {
  try {
    return objectIn(JSON.parse(Buffer.from(part, "base64url").toString()) as unknown);
  } catch {
    throw new SetError("invalid_request", "the token is malformed");
  }
}

function keyOf({ format, iss, sub, jti, id }: Members): string | undefined {
  const parts = { iss_sub: [iss, sub], jwt_id: [iss, jti], opaque: [id] }[String(format)];
  return parts?.every((part) => typeof part === "string") === true
    ? JSON.stringify([format, ...parts])
    : undefined;
}

/** @throws TypeError that names the option */
function checkOptions(options: SsfReceiverOptions): SsfReceiverOptions {
  const given = options as unknown as Readonly<Record<string, unknown>>;
  checkFunctions(given, [], ["fetchKeys", "onToken", "onError", "now"]);
  checkNumbers(given, ["tokenLifeSeconds", "maxDenials"]);
  const texts = { issuer: readText(given, "issuer"), audience: readText(given, "audience") };
  if (options.fetchKeys === undefined && !URL.canParse(texts.issuer)) {
    throw new TypeError("issuer is not a URL, so its keys cannot be fetched");
  }
  return options.authorization === undefined
    ? { ...options, ...texts }
    : { ...options, ...texts, authorization: readText(given, "authorization") };
}

export class SsfReceiver {
  readonly #options: SsfReceiverOptions;
  readonly #report: Report;
  readonly #now: () => number;
  readonly #seen: MemoryReplayStore;
  /** Unix seconds of the revocations, by subject, oldest first. */
  readonly #denied = new Map<string, number>();
  #keys: readonly JsonWebKey[] = [];
  #keysAtMs = -Infinity;

  /** @throws TypeError for an option that is missing or wrong */
  constructor(options: SsfReceiverOptions) {
    this.#options = checkOptions(options);
    this.#report = reporter(options.onError, "security event");
    this.#now = options.now ?? Date.now;
    this.#seen = new MemoryReplayStore({ now: this.#now });
  }

  /** The callback of the options, for the listeners. */
  get onError(): SsfReceiverOptions["onError"] {
    return this.#options.onError;
  }

  /** Whether an access token with these verified claims was revoked. */
  isDenied({ iss, sub, prn, tenant, jti, iat }: Members): boolean {
    const subjects = [
      { format: "iss_sub", iss, sub },
      { format: "iss_sub", iss, sub: prn },
      { format: "jwt_id", iss, jti },
      { format: "opaque", id: tenant },
    ];
    return subjects.some((subject) => {
      const at = this.#denied.get(keyOf(subject) ?? "");
      return at !== undefined && !(typeof iat === "number" && iat > at + ISSUER_SKEW_S);
    });
  }

  /** Answers a push (RFC 8935). Never rejects. */
  async receive(body: Uint8Array, headers: HeaderSource): Promise<SetAnswer> {
    try {
      checkUnread(body, headers);
      this.#checkRequest(body, headers);
      await this.accept(Buffer.from(body).toString("latin1"));
      return { status: 202, body: "", headers: {} };
    } catch (error) {
      const isInvalid = error instanceof SetError;
      this.#report(error, isInvalid ? `400 ${error.err}` : undefined);
      const reason = isInvalid ? { err: error.err, description: error.message } : {};
      return { status: isInvalid ? 400 : 503, body: JSON.stringify(reason), headers: ERROR_HEADERS };
    }
  }

  /**
   * Verifies a token, of a push or a poll, and applies it. A token that was accepted before changes nothing.
   *
   * @throws SetError if the token is not valid; other errors if it cannot be checked or applied now
   */
  async accept(set: string): Promise<SecurityEventToken> {
    const token = await this.#verify(set);
    if (!this.#seen.seen(token.jti, this.#now() + REMEMBER_MS)) {
      try {
        this.#apply(token);
        await this.#options.onToken?.(token);
      } catch (error) {
        this.#seen.forget(token.jti);
        throw error;
      }
    }
    return token;
  }

  #checkRequest(body: Uint8Array, headers: HeaderSource): void {
    const [type = ""] = valuesOf(headers, "content-type");
    if (!/^application\/secevent\+jwt\s*(;|$)/i.test(type) || body.length > MAX_BYTES) {
      throw new SetError("invalid_request", `the body is a token of at most ${MAX_BYTES} bytes`);
    }
    const { authorization } = this.#options;
    const wanted = Buffer.from(authorization ?? "");
    const given = Buffer.from(valuesOf(headers, "authorization").join());
    if (authorization !== undefined && !(given.length === wanted.length && timingSafeEqual(given, wanted))) {
      throw new SetError("authentication_failed", "the Authorization header is wrong");
    }
  }

  async #verify(set: string): Promise<SecurityEventToken> {
    const [head = "", payload = "", signature = "", ...rest] = set.split(".");
    const { alg, typ, kid } = decode(head);
    const claims = decode(payload);
    if (rest.length > 0 || !/^(application\/)?secevent\+jwt$/i.test(String(typ))) {
      throw new SetError("invalid_request", "the token is not a security event token");
    }
    const key = await this.#findKey(kid);
    const publicKey = soundKey(createPublicKey({ key, format: "jwk" }));
    const bytes = Buffer.from(`${head}.${payload}`, "latin1");
    const isSigned = verifySignature(alg, bytes, publicKey, Buffer.from(signature, "base64url"));
    if (key["alg"] !== alg || !isSigned) {
      throw new SetError("authentication_failed", "the signature is wrong");
    }
    return this.#check(claims);
  }

  #check({ iss, aud, iat, jti, txn, exp, sub, sub_id: subId, events }: Members): SecurityEventToken {
    if (iss !== this.#options.issuer) {
      throw new SetError("invalid_issuer", "iss is not the transmitter");
    }
    if (![aud].flat().includes(this.#options.audience)) {
      throw new SetError("invalid_audience", "aud is not this receiver");
    }
    const latest = this.#now() / 1_000 + SKEW_S;
    // Only access tokens have `exp` and `sub` (SSF 1.0 section 4.1).
    const isSet = exp === undefined && sub === undefined;
    if (typeof iat !== "number" || iat > latest || typeof jti !== "string" || !isSet) {
      throw new SetError("invalid_request", "a claim is missing or wrong");
    }
    return {
      jti,
      iat,
      txn: typeof txn === "string" ? txn : undefined,
      subId: objectIn(subId),
      events: objectIn(events) as SecurityEventToken["events"],
    };
  }

  /** Reads the keys again after five minutes, or for an unknown key once in ten seconds. */
  async #findKey(kid: unknown): Promise<JsonWebKey> {
    const { issuer, fetchKeys } = this.#options;
    const ageMs = this.#now() - this.#keysAtMs;
    let key = this.#keys.find((known) => known["kid"] === kid);
    if (ageMs > KEYS_FRESH_MS || (key === undefined && ageMs > KEYS_AGAIN_MS)) {
      const url = `${issuer}/.well-known/jwks.json`;
      const set = await (fetchKeys?.() ??
        fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
          async (answer) => JSON.parse((await readBody(answer.body, KEYS_BYTES_MAX)).toString()) as unknown,
        ));
      this.#keys = objectIn(set)["keys"] as readonly JsonWebKey[];
      this.#keysAtMs = this.#now();
      key = this.#keys.find((known) => known["kid"] === kid);
    }
    if (key === undefined) {
      throw new SetError("invalid_key", "the key is not in the key set");
    }
    return key;
  }

  #apply({ subId, iat, events }: SecurityEventToken): void {
    const { tokenLifeSeconds = 900, maxDenials = 100_000 } = this.#options;
    const event = events[SESSION_REVOKED];
    const subject = keyOf(subId);
    const at = typeof event?.["event_timestamp"] === "number" ? event["event_timestamp"] : iat;
    const since = this.#now() / 1_000 - tokenLifeSeconds - SKEW_S;
    for (const [known, revokedAt] of this.#denied) {
      if (revokedAt > since) {
        break;
      }
      this.#denied.delete(known);
    }
    // Tokens that an older revocation has ended have expired.
    if (event === undefined || subject === undefined || at <= since) {
      return;
    }
    const latest = Math.max(at, this.#denied.get(subject) ?? 0);
    this.#denied.delete(subject);
    if (this.#denied.size >= maxDenials) {
      throw new Error(`more than ${maxDenials} revocations are remembered`);
    }
    this.#denied.set(subject, latest);
  }
}

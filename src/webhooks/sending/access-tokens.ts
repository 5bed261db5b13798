/**
 * Access tokens for one receiver, by the OAuth 2.0 client credentials grant (RFC 6749, 4.4). They are asked for through
 * the sender, so that a token URL is held to the same policy as any target, and kept in memory alone.
 */
import type { Clock } from "../../domain/clock.ts";
import type { HttpSender } from "./http-sender.ts";

/** Whose tokens, and where they come from. */
export interface ClientCredentials {
  readonly token_url: string;
  readonly client_id: string;
  readonly client_secret: string;
  readonly scope?: string;
}

export interface AccessToken {
  readonly value: string;
  /** Whether this call waited for it; otherwise it is one of before, which the receiver may not know any more. */
  readonly fresh: boolean;
}

/** Why there is none, in words for the tenant that say nothing about our network. */
export interface NoToken {
  readonly problem: string;
}

/** The tokens of one receiver. */
export interface AccessTokens {
  /** The one at hand, or a new one; whoever asks meanwhile shares it. */
  get(): Promise<AccessToken | NoToken>;
  /** The receiver has refused it. */
  forget(value: string): void;
}

/** Within a ping's 5 s there is time left to send. */
const DEADLINE_MS = 4_000;
const ANSWER_BYTES = 16_384;
/** A token is replaced so long before it ends, or a tenth of its life before where that is shorter. */
const EARLY_MS = 60_000;
/** The life of tokens whose answer does not tell (RFC 6749, 5.1, leaves it open), and the longest that is believed. */
const UNKNOWN_LIFE_S = 300;
const MAX_LIFE_S = 86_400;
/** After a failure nobody asks for so long. */
const PAUSE_MS = 1_000;
/** RFC 6750, 2.1. */
const TOKEN_FORM = /^[A-Za-z0-9._~+/-]{1,8192}=*$/;

/** `application/x-www-form-urlencoded`, as RFC 6749, 2.3.1, wants both parts. */
function encoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

function tokenRequest({ token_url: url, client_id: id, client_secret: secret, scope }: ClientCredentials) {
  const form = new URLSearchParams({
    grant_type: "client_credentials",
    ...(scope === undefined ? {} : { scope }),
  });
  const credentials = Buffer.from(`${encoded(id)}:${encoded(secret)}`).toString("base64");
  return {
    url,
    headers: {
      Authorization: `Basic ${credentials}`,
      "Content-Type": "application/x-www-form-urlencoded",
      Accept: "application/json",
      "Accept-Encoding": "identity",
    },
    body: Buffer.from(form.toString()),
    deadlineMs: DEADLINE_MS,
    keptBodyBytes: ANSWER_BYTES,
    successStatus: (status: number) => status === 200,
  };
}

interface Kept {
  readonly value: string;
  readonly lifeMs: number;
}

function readAnswer(text: string | null): Kept | NoToken {
  let answer: Readonly<Record<string, unknown>>;
  try {
    answer = Object(JSON.parse(text ?? ""));
  } catch {
    return { problem: "the answer of token_url is no JSON of at most 16 KiB" };
  }
  const { access_token: value, token_type: type = "bearer", expires_in: expiresIn } = answer;
  if (typeof value !== "string" || !TOKEN_FORM.test(value)) {
    return { problem: "the answer of token_url has no access_token" };
  }
  if (typeof type !== "string" || type.toLowerCase() !== "bearer") {
    return { problem: "the answer of token_url has no bearer token" };
  }
  const given = typeof expiresIn === "number" && expiresIn >= 0 ? expiresIn : UNKNOWN_LIFE_S;
  return { value, lifeMs: Math.min(given, MAX_LIFE_S) * 1_000 };
}

export function createAccessTokens(
  credentials: ClientCredentials,
  { http, clock }: { readonly http: Pick<HttpSender, "send">; readonly clock: Clock },
): AccessTokens {
  const request = tokenRequest(credentials);
  let kept: { readonly value: string; readonly until: number } | null = null;
  let failed: { readonly problem: string; readonly until: number } | null = null;
  let asking: Promise<AccessToken | NoToken> | null = null;

  async function ask(): Promise<AccessToken | NoToken> {
    const result = await http.send(request);
    const answer =
      result.error === null
        ? readAnswer(result.responseBody)
        : { problem: `token_url: ${result.status === null ? result.error : `status ${result.status}`}` };
    if ("problem" in answer) {
      failed = { problem: answer.problem, until: clock.now() + PAUSE_MS };
      return answer;
    }
    const early = Math.min(EARLY_MS, answer.lifeMs / 10);
    // From before it was asked for: the answer's way counts against it.
    kept = { value: answer.value, until: result.startedAt + answer.lifeMs - early };
    return { value: answer.value, fresh: true };
  }

  return {
    async get() {
      const now = clock.now();
      if (kept !== null && now < kept.until) {
        return { value: kept.value, fresh: false };
      }
      if (failed !== null && now < failed.until) {
        return { problem: failed.problem };
      }
      asking ??= ask().finally(() => {
        asking = null;
      });
      return await asking;
    },
    forget(value) {
      if (kept?.value === value) {
        kept = null;
      }
    },
  };
}

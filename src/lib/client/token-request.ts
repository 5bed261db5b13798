/** The token request of the client credentials grant (RFC 6749 section 4.4), and the parsing of its answer. */
import { SignetTransportError } from "./errors.ts";
import { exchangeJson } from "./exchange.ts";
import { asObject } from "./json.ts";
import type { Runtime } from "./runtime.ts";
import { type ClientSecret, readSuccessor, type Successor } from "./succession.ts";

const JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/** RFC 6750 section 2.1: an invalid header value would cause an error that shows it. */
const B64TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

export interface TokenRequest {
  readonly url: string;
  readonly secret: ClientSecret;
  /** An assertion instead of a secret (RFC 7523). */
  readonly assertion: string | null;
  /** Null: all scopes of the principal. */
  readonly scope: string | null;
  readonly timeoutMs: number;
}

export interface TokenAnswer {
  readonly accessToken: string;
  readonly scope: string;
  readonly lifetimeMs: number;
  /** The successor of the presented secret, if its rotation is due. */
  readonly successor: Successor | null;
}

function readAnswer(value: unknown): TokenAnswer {
  const {
    access_token: accessToken,
    expires_in: expiresIn,
    scope,
    credential_rotation: rotation,
  } = asObject(value);
  if (typeof accessToken !== "string" || !B64TOKEN.test(accessToken)) {
    throw new SignetTransportError("INVALID_ANSWER", "the token endpoint's answer holds no token");
  }
  if (typeof expiresIn !== "number" || !(expiresIn > 0)) {
    throw new SignetTransportError(
      "INVALID_ANSWER",
      "the token endpoint does not say how long its token lasts",
    );
  }
  return {
    accessToken,
    scope: typeof scope === "string" ? scope : "",
    lifetimeMs: expiresIn * 1_000,
    successor: readSuccessor(rotation),
  };
}

/**
 * Requests a token once.
 *
 * @throws SignetApiError, SignetTransportError
 */
export async function requestToken(runtime: Runtime, request: TokenRequest): Promise<TokenAnswer> {
  const { assertion, scope } = request;
  const { clientId, secret } = request.secret;
  const body = {
    grant_type: "client_credentials",
    client_id: clientId,
    // Without a proof in the body the client certificate authenticates (RFC 8705 section 2.1).
    ...(secret === null ? {} : { client_secret: secret }),
    ...(assertion === null ? {} : { client_assertion_type: JWT_BEARER, client_assertion: assertion }),
    ...(scope === null ? {} : { scope }),
  };
  const answer = await exchangeJson(runtime, {
    method: "POST",
    url: request.url,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    timeoutMs: request.timeoutMs,
    confidential: [secret, assertion].filter((proof) => proof !== null),
  });
  return readAnswer(answer);
}

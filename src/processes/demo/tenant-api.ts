/** The public API as the demo's tenant calls it: plain HTTP only. */
import { readText } from "#lib/bounded-body.ts";
import type { Fetch } from "#lib/client/runtime.ts";

/** Longest time for an answer, in milliseconds. */
const ANSWER_MS = 15_000;

export type Json = Readonly<Record<string, unknown>>;

export interface TenantApi {
  readonly token: string;
  /** @throws Error with code and detail of the problem document */
  call(method: "GET" | "POST" | "DELETE", path: string, body?: Json): Promise<Json>;
}

/** Limits the time for each answer. */
export function inTime(fetch: Fetch): Fetch {
  return async (url, init) => await fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_MS) });
}

async function request(fetch: Fetch, url: string, init: RequestInit): Promise<Json> {
  const response = await fetch(url, init);
  const answer = (response.status === 204 ? {} : JSON.parse(await readText(response))) as Json;
  if (!response.ok) {
    const { code, detail, error_description: description } = answer;
    throw new Error(
      `${init.method} ${url}: ${response.status} ${String(code)}: ${String(detail ?? description)}`,
    );
  }
  return answer;
}

/** Gets a token with the credential and returns the API with it. */
export async function signIn(
  { baseUrl, fetch }: { readonly baseUrl: string; readonly fetch: Fetch },
  credential: { readonly clientId: string; readonly clientSecret: string },
): Promise<TenantApi> {
  const headers = { "content-type": "application/json" };
  const { access_token: token } = await request(fetch, `${baseUrl}/v1/auth/token`, {
    method: "POST",
    headers,
    body: JSON.stringify({
      client_id: credential.clientId,
      client_secret: credential.clientSecret,
      grant_type: "client_credentials",
    }),
  });
  const authorization = `Bearer ${String(token)}`;
  return {
    token: String(token),
    call: async (method, path, body) =>
      await request(fetch, `${baseUrl}${path}`, {
        method,
        headers: body === undefined ? { authorization } : { ...headers, authorization },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
  };
}

/** The public API as the demo's tenant calls it: plain HTTP only. */

export type Json = Readonly<Record<string, unknown>>;

export interface TenantApi {
  readonly token: string;
  /** @throws Error with code and detail of the problem document */
  call(method: "GET" | "POST" | "DELETE", path: string, body?: Json): Promise<Json>;
}

async function request(url: string, init: RequestInit): Promise<Json> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(15_000) });
  const answer = (response.status === 204 ? {} : await response.json()) as Json;
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
  baseUrl: string,
  credential: { readonly clientId: string; readonly clientSecret: string },
): Promise<TenantApi> {
  const headers = { "content-type": "application/json" };
  const { access_token: token } = await request(`${baseUrl}/v1/auth/token`, {
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
      await request(`${baseUrl}${path}`, {
        method,
        headers: body === undefined ? { authorization } : { ...headers, authorization },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
  };
}

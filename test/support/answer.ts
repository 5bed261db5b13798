/** HTTP responses in the form that tests check. */
import { eventually } from "./eventually.ts";

/** A response whose body has been read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as a JSON object; empty if it is not one. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** Parses the text as a JSON object. Returns an empty object if it is not one. */
export function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Reads the whole response. */
export async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parseObject(text) };
}

/**
 * Repeats a request while the process cannot hear revocations, as clients do (503 with Retry-After): on a busy machine, a
 * process or its database may stall for longer than a lease of 200 ms.
 */
export async function unlessStale<T extends Pick<Answer, "status" | "text">>(
  send: () => Promise<T>,
): Promise<T> {
  const result = await eventually(async () => {
    const [settled] = await Promise.allSettled([send()]);
    // The portal's pages name the code, too.
    return settled.status === "fulfilled" &&
      settled.value.status === 503 &&
      settled.value.text.includes("REVOCATION_STALE")
      ? undefined
      : settled;
  }, "a process that hears revocations");
  if (result.status === "rejected") {
    throw result.reason;
  }
  return result.value;
}

/** Returns a request's body and content type; nothing without a body. */
export function jsonBody(
  body: unknown,
): Pick<RequestInit, "body"> & { readonly headers?: Record<string, string> } {
  return body === undefined
    ? {}
    : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
}

/** Sends a request to the operators' API with an operator's token. */
export async function askOperators(
  operator: { readonly adminUrl: string; readonly token: string },
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> {
  const { headers, ...init } = jsonBody(body);
  return await readAnswer(
    await fetch(`${operator.adminUrl}/admin/v1${path}`, {
      ...init,
      method,
      headers: { authorization: `Bearer ${operator.token}`, ...headers },
    }),
  );
}

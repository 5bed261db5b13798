/** HTTP responses in the form that tests check. */

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

/** Answers as tests look at them. */

/** An answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as a JSON object; empty when it is none. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** The text as a JSON object; empty when it is none. */
export function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Reads an answer to its end. */
export async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parseObject(text) };
}

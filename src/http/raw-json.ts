/**
 * Responses that contain a tenant's own JSON. Its text is spliced in, which preserves 1.0, 2^60 and the order of
 * members. The responses are sent as text, so that no response schema serializes them again.
 */
import type { FastifyReply } from "fastify";

/** Media type of these responses, which must be set explicitly for text. */
const JSON_TYPE = "application/json; charset=utf-8";

/** Sends the JSON text of a response, instead of an object that the route's response schema describes. */
export async function sendRaw(reply: FastifyReply, code: number, json: string): Promise<void> {
  await reply.code(code).type(JSON_TYPE).send(json);
}

/** Adds a member to the JSON text of an object, which must not have space at its ends. The value is JSON text. */
export function spliceMember(text: string, name: string, json: string): string {
  const comma = text === "{}" ? "" : ",";
  return `${text.slice(0, -1)}${comma}${JSON.stringify(name)}:${json}}`;
}

/** Returns the text of the member that {@link spliceMember} has added, or undefined. */
export function rawMember(text: string, name: string): string | undefined {
  // Quotation marks inside strings are escaped, so this match is the start of a member.
  const start = text.indexOf(`${JSON.stringify(name)}:`);
  return start === -1 ? undefined : text.slice(start + name.length + 3, -1);
}

/** Returns a page whose items are JSON texts. */
export function rawPage(items: readonly string[], nextCursor: string | null): string {
  return `{"data":[${items.join(",")}],"next_cursor":${JSON.stringify(nextCursor)}}`;
}

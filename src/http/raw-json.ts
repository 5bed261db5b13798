/**
 * Answers that carry a tenant's own JSON: its text is spliced in, so that 1.0, 2^60 and member order survive. They are
 * sent as text, which no response schema writes again.
 */

/** Their media type, which a reply of text must name. */
export const JSON_TYPE = "application/json; charset=utf-8";

/** `object` as JSON with one more member, whose value is JSON text already. */
export function withRawMember(object: Readonly<Record<string, unknown>>, name: string, json: string): string {
  return spliceMember(JSON.stringify(object), name, json);
}

/** The JSON text of an object, without space at its ends, with one more member, whose value is JSON text too. */
export function spliceMember(text: string, name: string, json: string): string {
  const comma = text === "{}" ? "" : ",";
  return `${text.slice(0, -1)}${comma}${JSON.stringify(name)}:${json}}`;
}

/** The text of the member that {@link withRawMember} has added; undefined without it. */
export function rawMember(text: string, name: string): string | undefined {
  // A quotation mark inside a string is escaped: this is where a member begins.
  const start = text.indexOf(`${JSON.stringify(name)}:`);
  return start === -1 ? undefined : text.slice(start + name.length + 3, -1);
}

/** A page whose items are JSON texts. */
export function rawPage(items: readonly string[], nextCursor: string | null): string {
  return `{"data":[${items.join(",")}],"next_cursor":${JSON.stringify(nextCursor)}}`;
}

/** Elements of headers. `trim()` would remove more than HTTP allows, such as U+00A0, which belongs to the name of a cookie. */

function isSpace(text: string, at: number): boolean {
  return text[at] === " " || text[at] === "\t";
}

/** Removes optional white space: spaces and tabs (RFC 9110 section 5.6.3). */
export function withoutSpace(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isSpace(text, start)) {
    start += 1;
  }
  while (end > start && isSpace(text, end - 1)) {
    end -= 1;
  }
  return text.slice(start, end);
}

/** Returns the elements of a header, without the white space around them. */
export function elementsOf(header: string, separator = ","): string[] {
  return header.split(separator).map(withoutSpace);
}

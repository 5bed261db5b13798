/**
 * The canonical form of a request target (security decisions I, edge path rule). Routers, proxies and upstreams
 * interpret unusual forms differently. Therefore ambiguous targets are rejected, and the matched form is the one that
 * is forwarded.
 */

/** Segments of plain characters (RFC 3986 pchar without `;` and `%`); none is empty, `.` or `..`. */
const PLAIN_PATH = /^\/(?:(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+(?:\/|$))*$/;
/** The same with percent escapes, which are checked one by one. */
const ESCAPED_PATH = /^(?:[A-Za-z0-9._~!$&'()*+,=:@/-]|%[0-9A-Fa-f]{2})*$/;
const ESCAPE = /%[0-9A-Fa-f]{2}/g;
const UNRESERVED = /[A-Za-z0-9_~-]/;
/** Characters that must not be escaped either; `%25` could start a double escape. */
const FORBIDDEN_ESCAPES = new Set(["#", "%", ".", "/", ";", "\\", "\u007F"]);
/** Printable ASCII without `#`, since correct clients never send a fragment. */
const PLAIN_QUERY = /^[!"$-[\]-~]*$/;

function plainSpelling(escape: string): string | undefined {
  const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
  if (character < " " || FORBIDDEN_ESCAPES.has(character)) {
    return undefined;
  }
  return UNRESERVED.test(character) ? character : escape.toUpperCase();
}

function canonicalPath(path: string): string | undefined {
  if (PLAIN_PATH.test(path)) {
    return path;
  }
  if (!ESCAPED_PATH.test(path)) {
    return undefined;
  }
  let refused = false;
  const spelled = path.replaceAll(ESCAPE, (escape) => {
    const plain = plainSpelling(escape);
    refused ||= plain === undefined;
    return plain ?? "";
  });
  try {
    decodeURIComponent(spelled);
  } catch {
    return undefined;
  }
  return refused || !PLAIN_PATH.test(spelled.replaceAll(ESCAPE, "x")) ? undefined : spelled;
}

/**
 * Returns the canonical form of a request target in origin form: escapes of unreserved characters decoded, other
 * escapes in upper case, the query unchanged.
 *
 * @returns undefined for a target that must not be forwarded
 */
export function canonicalTarget(target: string): string | undefined {
  const question = target.indexOf("?");
  if (question === -1) {
    return canonicalPath(target);
  }
  const query = target.slice(question + 1);
  const path = canonicalPath(target.slice(0, question));
  return path === undefined || !PLAIN_QUERY.test(query) ? undefined : `${path}?${query}`;
}

/** Path patterns of the route table: `/v1/models/{model}`; a final `/*` matches any rest. */

const LITERAL = /^[A-Za-z0-9_~-][A-Za-z0-9._~-]*$/;
const PARAMETER = /^\{[a-z][a-z0-9_]{0,31}\}$/;
const REST = "*";

export type Segments = readonly string[];

/** Ranks a segment by how specific it is, most specific first. */
function rank(segment: string | undefined): number {
  if (segment === undefined) {
    return 0;
  }
  return segment === REST ? 3 : segment.startsWith("{") ? 2 : 1;
}

/** Returns the segments of a pattern, or why it is invalid. */
export function readPattern(path: string): Segments | string {
  if (!path.startsWith("/") || path === "/") {
    return "must begin with / and have at least one segment";
  }
  const segments = path.slice(1).split("/");
  const names = segments.filter((segment) => rank(segment) === 2);
  for (const [index, segment] of segments.entries()) {
    const last = index === segments.length - 1;
    if (!LITERAL.test(segment) && !PARAMETER.test(segment) && !(segment === REST && last && index > 0)) {
      return `segment "${segment}" must be letters, digits, - . _ or ~, a {parameter}, or * at the end`;
    }
  }
  return new Set(names).size === names.length ? segments : "must not repeat a parameter";
}

/** Returns the pattern in the router's syntax. */
export function routerPath(segments: Segments): string {
  return `/${segments.map((segment) => segment.replace(/^\{(.*)\}$/, ":$1")).join("/")}`;
}

/** How two patterns relate: whether a path can match both, and whether one is more specific. */
export type Overlap = "none" | "same" | "ordered" | "ambiguous";

/** Checks whether a path segment can match both. */
function compatible(left: string | undefined, right: string | undefined): boolean {
  const [a, b] = [rank(left), rank(right)];
  if (a === 0 || b === 0) {
    return Math.max(a, b) === 3;
  }
  return a !== 1 || b !== 1 || left === right;
}

export function overlap(left: Segments, right: Segments): Overlap {
  const found = new Set<number>();
  for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
    const [one, other] = [left[index], right[index]];
    if (!compatible(one, other)) {
      return "none";
    }
    found.add(Math.sign(rank(one) - rank(other)));
    if (one === REST || other === REST) {
      break;
    }
  }
  if (found.has(1) && found.has(-1)) {
    return "ambiguous";
  }
  return found.has(1) || found.has(-1) ? "ordered" : "same";
}

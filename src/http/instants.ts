/** Points in time on the wire: RFC 3339. */
import { type FieldProblem, invalidParameters, validationFailed } from "../domain/errors.ts";
import { Formed } from "./common.ts";

/** RFC 3339 with the years that PostgreSQL, JavaScript and people agree on. */
export const Instant = Formed(
  {
    pattern:
      "^(19|2[0-9])[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-][0-2][0-9]:[0-5][0-9])$",
    wanted: "a time with its offset (RFC 3339), such as 2025-11-20T14:46:40.000Z",
    shown: true,
  },
  { description: "RFC 3339", examples: ["2025-11-20T14:46:40.000Z"] },
);

/** As many characters as the date and the time of day have, without fraction and offset. */
const LOCAL_LENGTH = 19;

/** JavaScript reads the 30th of February as the 2nd of March, and 24:00 as the next day: neither comes back the same. */
function existsInCalendar(text: string): boolean {
  const local = text.slice(0, LOCAL_LENGTH);
  const date = new Date(`${local}Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(local);
}

const NO_INSTANT = "is not a point in time: there is no such day or hour";

function parse(text: string): Date | undefined {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) || !existsInCalendar(text) ? undefined : date;
}

/** Two instants as they came, of which one or both may be absent. */
interface SpanText {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** Where the two stand in a body. */
interface SpanPointers {
  readonly from: string;
  readonly to: string;
}

/** From the first instant on, before the second; without one, the span is open there. */
export interface Span {
  readonly from: Date | undefined;
  readonly to: Date | undefined;
}

/** A span that ends before it begins: whoever asked has the two the wrong way round, and would take nothing for an answer. */
function isReversed({ from, to }: Span): boolean {
  return from !== undefined && to !== undefined && from > to;
}

function reversed(pointer: string, other: string): FieldProblem {
  return { pointer, code: "order", detail: `must not come after ${other}` };
}

/** A member of a body. @throws SignetError VALIDATION_FAILED for a day or hour that does not exist */
export function bodyInstant(text: string, pointer: string): Date {
  const date = parse(text);
  if (date === undefined) {
    throw validationFailed([{ pointer, code: "format", detail: NO_INSTANT }]);
  }
  return date;
}

/**
 * Two members of a body.
 *
 * @param pointers of both
 * @throws SignetError VALIDATION_FAILED for a day or hour that does not exist, and for a span that ends before it begins
 */
export function bodySpan(
  text: SpanText & { readonly from: string },
  pointers: SpanPointers,
): Span & { readonly from: Date };
export function bodySpan(text: SpanText, pointers: SpanPointers): Span;
export function bodySpan({ from, to }: SpanText, pointers: SpanPointers): Span {
  const span = {
    from: from === undefined ? undefined : bodyInstant(from, pointers.from),
    to: to === undefined ? undefined : bodyInstant(to, pointers.to),
  };
  if (isReversed(span)) {
    throw validationFailed([reversed(pointers.from, pointers.to)]);
  }
  return span;
}

function queryInstant(text: string | undefined, name: string): Date | undefined {
  const date = text === undefined ? undefined : parse(text);
  if (text !== undefined && date === undefined) {
    throw invalidParameters([{ pointer: `/${name}`, code: "format", detail: NO_INSTANT }]);
  }
  return date;
}

/**
 * The parameters `from` and `to` of a query.
 *
 * @throws SignetError INVALID_REQUEST for a day or hour that does not exist, and for a span that ends before it begins
 */
export function querySpan({ from, to }: SpanText): Span {
  const span = { from: queryInstant(from, "from"), to: queryInstant(to, "to") };
  if (isReversed(span)) {
    throw invalidParameters([reversed("/from", "to")]);
  }
  return span;
}

/** Instants on the wire: RFC 3339. */
import { type FieldProblem, invalidParameters, validationFailed } from "#domain/errors.ts";
import { Documented, Formed } from "./common.ts";

/** RFC 3339, limited to the years that PostgreSQL and JavaScript both support. */
export const Instant = Formed(
  {
    pattern:
      "^(19|2[0-9])[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-][0-2][0-9]:[0-5][0-9])$",
    wanted: "a time with its offset (RFC 3339), such as 2025-11-20T14:46:40.000Z",
    shown: true,
  },
  {
    description: "RFC 3339",
    examples: ["2025-11-20T14:46:40.000Z"],
    ...Documented({ format: "date-time" }),
  },
);

/** Length of the date and time without fraction and offset, in characters. */
const LOCAL_LENGTH = 19;

/**
 * Checks that the day and hour exist. JavaScript parses 30 February as 2 March and 24:00 as the next day, so neither
 * survives a round trip.
 */
function existsInCalendar(text: string): boolean {
  const local = text.slice(0, LOCAL_LENGTH);
  const date = new Date(`${local}Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(local);
}

const NO_INSTANT = "is not a valid time: there is no such day or hour";

function parse(text: string): Date | undefined {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) || !existsInCalendar(text) ? undefined : date;
}

/** The texts of two optional instants. */
interface SpanText {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The JSON pointers of the two instants in a body. */
interface SpanPointers {
  readonly from: string;
  readonly to: string;
}

/** A time span from the first instant (inclusive) to the second (exclusive); an absent instant leaves it open. */
export interface Span {
  readonly from: Date | undefined;
  readonly to: Date | undefined;
}

/** Checks whether a span ends before it begins. Without an error, swapped instants would look like an empty result. */
function isReversed({ from, to }: Span): boolean {
  return from !== undefined && to !== undefined && from > to;
}

function reversed(pointer: string, other: string): FieldProblem {
  return { pointer, code: "order", detail: `must not be after ${other}` };
}

/** Parses an instant in a body. @throws SignetError VALIDATION_FAILED for a day or hour that does not exist */
export function bodyInstant(text: string, pointer: string): Date {
  const date = parse(text);
  if (date === undefined) {
    throw validationFailed([{ pointer, code: "format", detail: NO_INSTANT }]);
  }
  return date;
}

/**
 * Parses two instants in a body.
 *
 * @param pointers JSON pointers of both
 * @throws SignetError VALIDATION_FAILED for a day or hour that does not exist, and for a span that ends before it
 *   begins
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
 * Parses the query parameters `from` and `to`.
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

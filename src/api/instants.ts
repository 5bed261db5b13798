/** Points in time on the wire: RFC 3339. */
import { invalidParameters, validationFailed } from "../errors.ts";
import { Formed } from "./schemas/common.ts";

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

/** A body member. @throws SignetError VALIDATION_FAILED for a day or hour that does not exist */
export function bodyInstant(text: string, pointer: string): Date {
  const date = parse(text);
  if (date === undefined) {
    throw validationFailed([{ pointer, code: "format", detail: NO_INSTANT }]);
  }
  return date;
}

/** A query parameter. @throws SignetError INVALID_REQUEST for a day or hour that does not exist */
export function queryInstant(text: string | undefined, name: string): Date | undefined {
  const date = text === undefined ? undefined : parse(text);
  if (text !== undefined && date === undefined) {
    throw invalidParameters([{ pointer: `/${name}`, code: "format", detail: NO_INSTANT }]);
  }
  return date;
}

/** `Retry-After` (RFC 9110 section 10.2.3), with each of the three forms of a date (section 5.6.7). */

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const LONG_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day";
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = "(?<time>[0-2]\\d:[0-5]\\d:[0-6]\\d)";
const FORMS = [
  `${DAY}, (?<day>[0-3]\\d) ${MONTH} (?<year>\\d{4}) ${TIME} GMT`,
  `${LONG_DAY}, (?<day>[0-3]\\d)-${MONTH}-(?<year>\\d\\d) ${TIME} GMT`,
  `${DAY} ${MONTH} (?<day>[ 0-3]\\d) ${TIME} (?<year>\\d{4})`,
].map((form) => new RegExp(`^${form}$`));
/** A year of two digits is at most this far ahead. */
const YEARS_AHEAD_MAX = 50;
/** Larger numbers of milliseconds are not exact. */
const WAIT_MAX_MS = Number.MAX_SAFE_INTEGER;

function isoTime(year: number, month: string, day: string, time: string): number {
  const number = String(MONTHS.indexOf(month) + 1).padStart(2, "0");
  // A leap second is the last one that JavaScript knows.
  const known = time.replace(/:6\d$/, ":59");
  return Date.parse(`${String(year).padStart(4, "0")}-${number}-${day.replace(" ", "0")}T${known}Z`);
}

/** Returns an HTTP date in Unix milliseconds; NaN if it is none. */
function httpDate(text: string, nowMs: number): number {
  const {
    year = "",
    month = "",
    day = "",
    time = "",
  } = FORMS.map((form) => form.exec(text)?.groups).find((groups) => groups !== undefined) ?? {};
  if (year.length !== 2) {
    return isoTime(Number(year), month, day, time);
  }
  const thisYear = new Date(nowMs).getUTCFullYear();
  const century = thisYear - (thisYear % 100);
  const latest = new Date(nowMs);
  latest.setUTCFullYear(thisYear + YEARS_AHEAD_MAX);
  const times = [100, 0, -100].map((years) => isoTime(century + years + Number(year), month, day, time));
  return times.find((at) => at <= latest.getTime()) ?? Number.NaN;
}

/**
 * Returns the wait that a response requests, in milliseconds.
 *
 * @param header the value, without white space around it
 * @returns null if it is neither a whole number of seconds nor a date
 */
export function retryAfterMs(header: string, nowMs: number): number | null {
  const wait = /^\d+$/.test(header) ? Number(header) * 1_000 : httpDate(header, nowMs) - nowMs;
  return Number.isNaN(wait) ? null : Math.min(Math.max(wait, 0), WAIT_MAX_MS);
}

/** Times on the command line: a duration ago, a time of day, a date, or RFC 3339. */
import { InvalidArgumentError, Option } from "commander";
import { systemClock } from "#runtime/machine-timers.ts";
import { DAY_MS, HOUR_MS } from "#domain/ids.ts";

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: HOUR_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
};
const DURATION = /^(?:\d{1,6}[smhdw])+$/;
const TIME_OF_DAY = /^(\d{2}):(\d{2})(?::(\d{2}))?$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2}))?)?$/;
const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** Forms of a time, for the meaning of an option. */
const FORMS = "2h (ago), 02:00, 2026-11-22 or RFC 3339";

/** Returns the local time of these numbers; undefined if it does not exist, such as February 30. */
function localTime(parts: readonly (string | undefined)[]): Date | undefined {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map((part) =>
    Number(part ?? 0),
  );
  const time = new Date(year, month - 1, day, hour, minute, second);
  const exists = time.getMonth() === month - 1 && time.getDate() === day;
  return exists && hour < 24 && minute < 60 && second < 60 ? time : undefined;
}

/** Returns the newest instant with this local time of day. */
function newestTimeOfDay(
  [hour, minute, second]: readonly (string | undefined)[],
  now: Date,
): Date | undefined {
  const on = (day: Date): Date | undefined =>
    localTime([
      String(day.getFullYear()),
      String(day.getMonth() + 1),
      String(day.getDate()),
      hour,
      minute,
      second,
    ]);
  const today = on(now);
  return today === undefined || today <= now ? today : on(new Date(now.getTime() - DAY_MS));
}

/**
 * Returns the instant as RFC 3339. Times of day and dates without a zone are local; a time of day is the newest one.
 *
 * @param text one of: `90m`, `1d12h` (ago), `02:00`, `2026-11-22`, `2026-11-22 02:00`, RFC 3339, which stays as it is
 * @param nowMs the current time, in milliseconds since 1970
 * @returns undefined if the text is not a time
 */
export function parseTime(text: string, nowMs: number): string | undefined {
  if (RFC_3339.test(text)) {
    return Number.isNaN(Date.parse(text)) ? undefined : text;
  }
  if (DURATION.test(text)) {
    const parts = [...text.matchAll(/(\d+)([smhdw])/g)];
    const agoMs = parts.reduce((sum, [, count, unit = ""]) => sum + Number(count) * (UNITS[unit] ?? 0), 0);
    return agoMs > nowMs ? undefined : new Date(nowMs - agoMs).toISOString();
  }
  const [, ...timeOfDay] = TIME_OF_DAY.exec(text) ?? [];
  const [, ...date] = DATE.exec(text) ?? [];
  const time =
    timeOfDay.length > 0
      ? newestTimeOfDay(timeOfDay, new Date(nowMs))
      : date.length > 0
        ? localTime(date)
        : undefined;
  return time?.toISOString();
}

/** Creates an option that takes a time and gives it to the command as RFC 3339. */
export function timeOption(flags: string, meaning: string): Option {
  return new Option(flags, `${meaning}: ${FORMS}`).argParser((text: string) => {
    const time = parseTime(text, systemClock.now());
    if (time === undefined) {
      throw new InvalidArgumentError(`It takes a time: ${FORMS}.`);
    }
    return time;
  });
}

/** Returns an API's time as local date and time for a table, to the second; undefined for any other text. */
export function shownTime(text: string): string | undefined {
  if (!RFC_3339.test(text)) {
    return undefined;
  }
  const time = new Date(text);
  const two = (number: number): string => String(number).padStart(2, "0");
  const date = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
  return `${date} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":")}`;
}

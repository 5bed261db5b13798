/** Usage: counts by tenant and day, as JSON and CSV, for tenants and operators. */
import type { FastifyReply } from "fastify";
import { type Static, Type } from "typebox";
import type { DayOfUsage } from "#database/repositories/webhooks/delivery-counts.ts";
import { USAGE_DAYS } from "#domain/delivery.ts";
import { invalidParameters } from "#domain/errors.ts";
import { DAY_MS, utcDay } from "#domain/ids.ts";
import { Formed, Id, OneOf, Resource } from "#http/common.ts";

const DAYS_MAX = 400;

const Day = (description: string) =>
  Formed(
    {
      pattern: "^20[0-9]{2}-[01][0-9]-[0-3][0-9]$",
      wanted: "a day such as 2025-11-20",
      shown: true,
    },
    { description, examples: ["2025-11-20"] },
  );

export const UsageQuery = {
  from: Type.Optional(Day(`First day, UTC; ${USAGE_DAYS} days ago by default`)),
  to: Type.Optional(Day("Last day, UTC; today by default")),
  format: Type.Optional(OneOf(["json", "csv"])),
};

export const Usage = Resource("Usage", {
  tenant_id: Id("tenant"),
  day: Type.String({ description: "UTC", examples: ["2025-11-20"] }),
  events: Type.Integer({ description: "Accepted from the tenant, without events of the service" }),
  bytes: Type.Integer({ description: "Size of these events' data, sealed" }),
  deliveries: Type.Integer({ description: "Accepted on this day" }),
  delivered: Type.Integer({ description: "Of the deliveries accepted on this day" }),
  dead_lettered: Type.Integer(),
  expired: Type.Integer(),
  cancelled: Type.Integer(),
  attempts: Type.Integer({ description: "Ended on this day" }),
  failed_attempts: Type.Integer(),
});

function toUsage(row: DayOfUsage): Static<typeof Usage> {
  return {
    tenant_id: row.tenant_id,
    day: row.day,
    events: row.events,
    bytes: row.bytes,
    deliveries: row.accepted,
    delivered: row.delivered,
    dead_lettered: row.dead,
    expired: row.expired,
    cancelled: row.cancelled,
    attempts: row.attempts,
    failed_attempts: row.failed,
  };
}

/** Returns the rows as CSV (RFC 4180) with a header. No value needs quoting. */
function usageCsv(rows: readonly DayOfUsage[]): string {
  const lines = rows.map((row) => Object.values(toUsage(row)).join(","));
  return [Object.keys(Usage.properties).join(","), ...lines, ""].join("\r\n");
}

/** For the OpenAPI documents. */
export const CSV_EXAMPLE = `${Object.keys(Usage.properties).join(",")}\r\n`;

/** Sends the rows in the wanted format; JSON by default. @param next the cursor of the next page, of a list that has pages */
export async function sendUsage(
  reply: FastifyReply,
  { rows, next }: { readonly rows: readonly DayOfUsage[]; readonly next?: string | null },
  format: "csv" | "json" | undefined,
): Promise<FastifyReply> {
  return format === "csv"
    ? await reply.type("text/csv; charset=utf-8").serializer(String).send(usageCsv(rows))
    : await reply.send({
        data: rows.map(toUsage),
        ...(next === undefined ? {} : { next_cursor: next }),
      });
}

/**
 * Returns the span of days.
 *
 * @throws SignetError INVALID_REQUEST if a day does not exist, or if the span is empty or too long
 */
export function usageSpan(
  { from, to }: { readonly from?: string; readonly to?: string },
  nowMs: number,
): { readonly from: Date; readonly to: Date } {
  const last = dayOf("/to", to ?? utcDay(nowMs));
  const first = from === undefined ? last - (USAGE_DAYS - 1) * DAY_MS : dayOf("/from", from);
  if (first > last || last - first >= DAYS_MAX * DAY_MS) {
    const detail = `must be at most ${DAYS_MAX - 1} days before \`to\`, and not after it`;
    throw invalidParameters([{ pointer: "/from", code: "range", detail }]);
  }
  return { from: new Date(first), to: new Date(last + DAY_MS) };
}

function dayOf(pointer: string, text: string): number {
  const ms = Date.parse(`${text}T00:00:00Z`);
  if (Number.isNaN(ms) || utcDay(ms) !== text) {
    throw invalidParameters([{ pointer, code: "calendar", detail: "is not a valid day" }]);
  }
  return ms;
}

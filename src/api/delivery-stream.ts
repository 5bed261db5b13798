/** Deliveries as server-sent events (WHATWG HTML 9.2): for the API's stream and for the portal's pages. */
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { type Static, Type } from "typebox";
import type { DeliveryStream, DeliveryStreams } from "../delivery/delivery-streams.ts";
import type { Clock } from "../domain/clock.ts";
import { presentDelivery } from "./schemas/deliveries.ts";

export const EVENT_STREAM = "text/event-stream";
/** How often it is asked whether the caller may still look, and a silent stream is heard of. */
const CHECK_MS = 5_000;
/** A client that takes nothing for so long after its stream's end is cut off. */
const LINGER_MS = 5_000;

/** Sent by itself by what reads server-sent events, when it connects again (WHATWG HTML 9.2.4). */
export const PositionHeaders = Type.Object({
  "last-event-id": Type.Optional(
    Type.String({
      pattern: "^[0-9]{1,15}$",
      description: "The `id` that an earlier stream was last told: goes on from there",
      examples: ["1763650000000"],
    }),
  ),
});

/** Where a stream goes on from, Unix milliseconds; undefined for one that begins. */
export function positionOf({
  "last-event-id": position,
}: Static<typeof PositionHeaders>): number | undefined {
  return position === undefined ? undefined : Number(position);
}

export interface StreamingServices {
  readonly streams: DeliveryStreams;
  readonly clock: Clock;
}

/** Whose stream it is, and how long. */
export interface StreamCaller {
  readonly tenantId: string;
  /** Unix milliseconds. */
  readonly endsAtMs: number;
  /** The position of an earlier stream that this one goes on from. */
  readonly sinceMs?: number | undefined;
  /** Whether the caller may still look; asked every 5 seconds. */
  readonly isAdmitted: () => Promise<boolean>;
}

type End = "expired" | "revoked" | "closing";

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

async function* lines(
  stream: DeliveryStream,
  { endsAtMs, sinceMs, isAdmitted }: StreamCaller,
  clock: Clock,
): AsyncGenerator<string> {
  yield "retry: 5000\n\n";
  let [told, checkedMs] = [false, clock.now()];
  for (;;) {
    const now = clock.now();
    const changed = await stream.take(Math.max(1, Math.min(CHECK_MS, endsAtMs - now)));
    let end: End | undefined = stream.ended ? "closing" : undefined;
    if (clock.now() >= endsAtMs) {
      end = "expired";
    } else if (clock.now() - checkedMs >= CHECK_MS) {
      checkedMs = clock.now();
      end ??= (await isAdmitted()) ? undefined : "revoked";
    }
    if (end !== undefined) {
      yield event("end", { reason: end });
      return;
    }
    const ready =
      stream.ready && !told ? event("ready", sinceMs === undefined ? {} : { complete: stream.complete }) : "";
    told ||= stream.ready;
    const text = ready + changed.map((row) => event("delivery", presentDelivery(row))).join("");
    // After all of what it stands for: who has read half of that is told it again.
    yield `${text}${told ? `id: ${stream.position}\n` : ""}: still here\n\n`;
  }
}

/**
 * Answers with the stream. It is read no faster than the client takes it, and what it has not been told is at most one
 * line for each delivery that is followed.
 *
 * @throws SignetError RATE_LIMITED when too many are open
 */
export async function sendDeliveries(
  reply: FastifyReply,
  caller: StreamCaller,
  { streams, clock }: StreamingServices,
): Promise<FastifyReply> {
  const { tenantId, endsAtMs, sinceMs } = caller;
  const stream = streams.follow(tenantId, sinceMs);
  const readable = Readable.from(lines(stream, caller, clock), { highWaterMark: 1 });
  // A client that reads nothing does not learn of the end: it is cut off.
  const cut = setTimeout(() => readable.destroy(), Math.max(0, endsAtMs - clock.now()) + LINGER_MS);
  const leave = (): void => {
    clearTimeout(cut);
    streams.leave(tenantId, stream);
  };
  readable.once("close", leave);
  reply.raw.once("close", () => readable.destroy());
  return await reply
    .header("cache-control", "no-store")
    // nginx would hold it back until its buffer is full.
    .header("x-accel-buffering", "no")
    .type(EVENT_STREAM)
    .send(readable);
}

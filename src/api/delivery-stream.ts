/** Deliveries as server-sent events (WHATWG HTML 9.2): for the API's stream and for the portal's pages. */
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { type Static, Type } from "typebox";
import type { DeliveryStream, DeliveryStreams } from "../webhooks/engine/delivery-streams.ts";
import type { Clock } from "../domain/clock.ts";
import { Formed } from "../http/common.ts";
import { presentDelivery } from "./schemas/deliveries.ts";
import { type IsAdmitted, whileAdmitted } from "../http/while-admitted.ts";

export const EVENT_STREAM = "text/event-stream";
/** How often a silent stream is heard of, and it is asked whether its session is still open. */
const CHECK_MS = 5_000;
/** A client that takes nothing for so long after its revocation is cut off. */
const FAREWELL_MS = 100;
/** A client that takes nothing for so long after its stream's end is cut off. */
const LINGER_MS = 5_000;

/** Sent by itself by what reads server-sent events, when it connects again (WHATWG HTML 9.2.4). */
export const PositionHeaders = Type.Object({
  "last-event-id": Type.Optional(
    Formed(
      { pattern: "^[0-9]{1,15}$", wanted: "the id that an earlier stream was last told: 1 to 15 digits" },
      {
        description: "The `id` that an earlier stream was last told: goes on from there",
        examples: ["1763650000000"],
      },
    ),
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
  /** Whether the caller's credential may still do what it does. */
  readonly isAdmitted: IsAdmitted;
  /** Whether the caller is still signed in, where that is something else; asked every 5 seconds. */
  readonly isSignedIn?: () => Promise<boolean>;
}

type End = "expired" | "revoked" | "closing";

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Follows until the caller is let in no longer. */
interface Watched {
  readonly stream: DeliveryStream;
  /** Why it is over before its time. */
  revoked: boolean;
}

function endOf({ stream, revoked }: Watched, late: boolean): End | undefined {
  if (revoked) {
    return "revoked";
  }
  if (late) {
    return "expired";
  }
  return stream.ended ? "closing" : undefined;
}

async function* lines(
  watched: Watched,
  { endsAtMs, sinceMs, isSignedIn }: StreamCaller,
  clock: Clock,
): AsyncGenerator<string> {
  const { stream } = watched;
  yield "retry: 5000\n\n";
  let [told, checkedMs] = [false, clock.now()];
  for (;;) {
    const now = clock.now();
    const changed = await stream.take(Math.max(1, Math.min(CHECK_MS, endsAtMs - now)));
    let end = endOf(watched, clock.now() >= endsAtMs);
    if (end === undefined && isSignedIn !== undefined && clock.now() - checkedMs >= CHECK_MS) {
      checkedMs = clock.now();
      end = (await isSignedIn()) ? undefined : "revoked";
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
  if (reply.request.method === "HEAD") {
    return await reply.type(EVENT_STREAM).send(Readable.from([]));
  }
  const { tenantId, endsAtMs, sinceMs, isAdmitted } = caller;
  const stream = streams.follow(tenantId, sinceMs);
  const watched: Watched = { stream, revoked: false };
  const readable = Readable.from(lines(watched, caller, clock), { highWaterMark: 1 });
  const stopWatching = whileAdmitted({
    isAdmitted,
    onEnd: (why) => {
      watched.revoked = why === "revoked";
      stream.end();
      // What it has not taken by then it is not given any more.
      setTimeout(() => void (reply.raw.writableFinished || reply.raw.destroy()), FAREWELL_MS).unref();
    },
  });
  // A client that reads nothing does not learn of the end: it is cut off.
  const cut = setTimeout(() => readable.destroy(), Math.max(0, endsAtMs - clock.now()) + LINGER_MS);
  const leave = (): void => {
    stopWatching();
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

/** Deliveries as server-sent events (WHATWG HTML 9.2): for the API's stream and for the portal's pages. */
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { type Static, Type } from "typebox";
import type { DeliveryStream, DeliveryStreams } from "#webhooks/engine/delivery-streams.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { Formed } from "#http/common.ts";
import { toDelivery } from "./schemas/deliveries.ts";
import { type IsAdmitted, whileAdmitted } from "#http/while-admitted.ts";

export const EVENT_STREAM = "text/event-stream";
/** Interval of keep-alive comments and of session checks, in milliseconds. */
const CHECK_MS = 5_000;
/** Milliseconds after a revocation until a client that reads nothing is disconnected. */
const FAREWELL_MS = 100;
/** Milliseconds after the stream's end until a client that reads nothing is disconnected. */
const LINGER_MS = 5_000;

/** Clients of server-sent events send this header automatically when they reconnect (WHATWG HTML 9.2.4). */
export const PositionHeaders = Type.Object({
  "last-event-id": Type.Optional(
    Formed(
      { pattern: "^[0-9]{1,15}$", wanted: "the last id of an earlier stream: 1 to 15 digits" },
      {
        description: "The last `id` of an earlier stream: the new stream continues from there",
        examples: ["1763650000000"],
      },
    ),
  ),
});

/** Returns the position from which a stream continues, in Unix milliseconds; undefined for a new stream. */
export function positionOf({
  "last-event-id": position,
}: Static<typeof PositionHeaders>): number | undefined {
  return position === undefined ? undefined : Number(position);
}

export interface StreamingServices {
  readonly streams: DeliveryStreams;
  readonly clock: Clock;
  readonly timers: Timers;
}

/** The caller of a stream. */
export interface StreamCaller {
  readonly tenantId: string;
  /** End of the stream, in Unix milliseconds. */
  readonly endsAtMs: number;
  /** Position of the earlier stream that this one continues, in Unix milliseconds. */
  readonly sinceMs?: number | undefined;
  /** Checks that the caller's credential is still admitted. */
  readonly isAdmitted: IsAdmitted;
  /** Checks every 5 seconds that the caller is still signed in, for callers with a session. */
  readonly isSignedIn?: () => Promise<boolean>;
}

type End = "expired" | "revoked" | "closing";

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A stream that is followed while the caller is admitted. */
interface Watched {
  readonly stream: DeliveryStream;
  /** Whether a revocation has ended it early. */
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
    const health = stream
      .takeHealth()
      .map(({ endpoint_id, health: status }) => event("endpoint_health", { endpoint_id, status }));
    const text = ready + changed.map((row) => event("delivery", toDelivery(row))).join("") + health.join("");
    // The id follows everything that it covers, so that a client that read only a part gets that part again.
    yield `${text}${told ? `id: ${stream.position}\n` : ""}: still here\n\n`;
  }
}

/**
 * Sends the stream, no faster than the client reads it. At most one line per followed delivery is pending.
 *
 * @throws SignetError RATE_LIMITED if too many streams are open
 */
export async function sendDeliveries(
  reply: FastifyReply,
  caller: StreamCaller,
  { streams, clock, timers }: StreamingServices,
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
    timers,
    onEnd: (why) => {
      watched.revoked = why === "revoked";
      stream.end();
      // Discard what the client has not read by then.
      timers.after(FAREWELL_MS, () => void (reply.raw.writableFinished || reply.raw.destroy())).unref();
    },
  });
  // A client that reads nothing does not notice the end, so disconnect it.
  const cut = timers.after(Math.max(0, endsAtMs - clock.now()) + LINGER_MS, () => readable.destroy());
  const leave = (): void => {
    stopWatching();
    timers.cancel(cut);
    streams.leave(tenantId, stream);
  };
  readable.once("close", leave);
  reply.raw.once("close", () => readable.destroy());
  return await reply
    .header("cache-control", "no-store")
    // Otherwise nginx buffers the stream.
    .header("x-accel-buffering", "no")
    .type(EVENT_STREAM)
    .send(readable);
}

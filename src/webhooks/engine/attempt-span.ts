/** Trace span around a request to a receiver. It has the endpoint's id, never its URL. */
import type { AttemptKey, LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import type { TracedSpan, Tracer } from "#observability/tracer.ts";
import type { SentAttempt } from "../sending/delivery-sender.ts";

/** Starts the span of an attempt. Its parent is the request that published the event. */
export function startAttempt(spans: Tracer, key: AttemptKey, delivery: LoadedDelivery): TracedSpan {
  return spans.start({
    name: "attempt",
    kind: "client",
    attributes: {
      "signet.delivery_id": key.deliveryId,
      "signet.event_id": delivery.event_id,
      "signet.endpoint_id": delivery.endpoint_id,
      "signet.tenant_id": delivery.tenant_id,
      "signet.workflow_id": key.carrier,
      "signet.attempt": key.attempt,
      "signet.cycle": delivery.cycle,
    },
    parents: [delivery.traceparent],
  });
}

/** Ends the span with the attempt. */
export async function endedWith(span: TracedSpan, attempt: Promise<SentAttempt>): Promise<SentAttempt> {
  try {
    const sent = await attempt;
    span.end(
      sent.status === null ? {} : { "http.response.status_code": sent.status },
      sent.error ?? undefined,
    );
    return sent;
  } catch (error) {
    span.end({}, "internal");
    throw error;
  }
}

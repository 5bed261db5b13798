/**
 * Signals can contain any bytes. A payload that cannot be decoded would fail the workflow task again and again and
 * block the workflow's deliveries. So it becomes a value that no handler accepts. The bundle loads this converter by
 * path (src/temporal/bundle.ts).
 */
import { defaultPayloadConverter, type Payload, type PayloadConverter } from "@temporalio/common";

const NOT_UNDERSTOOD = "payload that cannot be decoded";

function fromPayload<T>(payload: Payload): T {
  try {
    return defaultPayloadConverter.fromPayload<T>(payload);
  } catch {
    return NOT_UNDERSTOOD as T;
  }
}

export const payloadConverter: PayloadConverter = {
  toPayload: (value) => defaultPayloadConverter.toPayload(value),
  fromPayload,
};

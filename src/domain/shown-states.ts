/** States and failures of deliveries and endpoints as people read them: in the portal, on terminals, in explanations. */
import type { AttemptError, DeliveryState } from "./delivery.ts";
import type { ShownHealth } from "./endpoint-health.ts";
import type { ENDPOINT_STATES } from "./endpoint-state.ts";

/** `good`: as wanted; `wait`: goes on by itself; `bad`: needs somebody; `idle`: ended, or not known. */
export type Tone = "bad" | "good" | "idle" | "wait";

export interface Shown {
  readonly tone: Tone;
  readonly words: string;
}

export const SHOWN_DELIVERIES: Readonly<Record<DeliveryState, Shown>> = {
  QUEUED: { tone: "wait", words: "queued" },
  RETRYING: { tone: "wait", words: "retrying" },
  DELIVERED: { tone: "good", words: "delivered" },
  DEAD_LETTERED: { tone: "bad", words: "dead letter" },
  EXPIRED: { tone: "idle", words: "expired" },
  CANCELLED: { tone: "idle", words: "cancelled" },
};

export const SHOWN_ENDPOINTS: Readonly<Record<(typeof ENDPOINT_STATES)[number], Shown>> = {
  PENDING: { tone: "wait", words: "pending" },
  ACTIVE: { tone: "good", words: "active" },
  DISABLED: { tone: "bad", words: "disabled" },
};

export const SHOWN_HEALTH: Readonly<Record<ShownHealth, Shown>> = {
  healthy: { tone: "good", words: "healthy" },
  degraded: { tone: "wait", words: "degraded" },
  failing: { tone: "bad", words: "failing" },
  unknown: { tone: "idle", words: "unknown" },
};

/** Failures of attempts: in a few words, and as a part of a sentence. */
export const FAILURES: Readonly<Record<AttemptError, { readonly words: string; readonly sentence: string }>> =
  {
    status: { words: "HTTP error", sentence: "the attempt failed" },
    timeout: { words: "no answer in time", sentence: "the receiver did not answer in time" },
    connect: { words: "no connection", sentence: "the receiver could not be reached" },
    tls: { words: "TLS failed", sentence: "the TLS handshake with the receiver failed" },
    dns: { words: "host not found", sentence: "the receiver's host name was not found" },
    refused: { words: "address not allowed", sentence: "the receiver's address is not allowed" },
    aborted: {
      words: "connection was interrupted",
      sentence: "the connection to the receiver was interrupted",
    },
    authentication: {
      words: "no access token",
      sentence: "no access token for the receiver could be obtained",
    },
  };

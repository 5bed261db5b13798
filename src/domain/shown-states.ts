/** States of objects and failures of attempts as people read them: in the portal, on terminals, in explanations. */
import type { AttemptError } from "./delivery.ts";

/** `good`: as wanted; `wait`: goes on, or is on hold; `bad`: needs somebody; `idle`: ended, or not known. */
export type Tone = "bad" | "good" | "idle" | "wait";

interface Shown {
  readonly tone: Tone;
  readonly words: string;
}

/** States of every kind of object, by their names in the API. That a job has ended says nothing of its outcome. */
export const SHOWN_STATES = {
  QUEUED: { tone: "wait", words: "queued" },
  RETRYING: { tone: "wait", words: "retrying" },
  DELIVERED: { tone: "good", words: "delivered" },
  DEAD_LETTERED: { tone: "bad", words: "dead letter" },
  EXPIRED: { tone: "idle", words: "expired" },
  CANCELLED: { tone: "idle", words: "cancelled" },
  PENDING: { tone: "wait", words: "pending" },
  ACTIVE: { tone: "good", words: "active" },
  DISABLED: { tone: "bad", words: "disabled" },
  healthy: { tone: "good", words: "healthy" },
  degraded: { tone: "wait", words: "degraded" },
  failing: { tone: "bad", words: "failing" },
  unknown: { tone: "idle", words: "unknown" },
  NEXT: { tone: "wait", words: "next" },
  CURRENT: { tone: "good", words: "current" },
  PREVIOUS: { tone: "idle", words: "previous" },
  RETIRING: { tone: "wait", words: "retiring" },
  RETIRED: { tone: "idle", words: "retired" },
  REVOKED: { tone: "bad", words: "revoked" },
  WAITING: { tone: "wait", words: "waiting" },
  RUNNING: { tone: "wait", words: "running" },
  PAUSED: { tone: "wait", words: "paused" },
  COMPLETED: { tone: "idle", words: "completed" },
  DONE: { tone: "idle", words: "sent" },
  SKIPPED: { tone: "idle", words: "skipped" },
  FAILED: { tone: "bad", words: "failed" },
  SUSPENDED: { tone: "wait", words: "suspended" },
  ENDED: { tone: "idle", words: "ended" },
  ERASED: { tone: "idle", words: "erased" },
} as const satisfies Readonly<Record<string, Shown>>;

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

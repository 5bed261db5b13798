/** Keys that make a POST safe to repeat: the service answers a repeated one with what it answered before, for 24 hours. */
import { randomUUID } from "node:crypto";
import type { CallOptions } from "./transport.ts";

export interface IdempotentOptions extends CallOptions {
  /** 1 to 255 printable ASCII characters; made up when absent. Give one to be safe beyond the life of this process. */
  readonly idempotencyKey?: string;
}

/** The caller's key, or a fresh one: it stays the same over all repetitions of the call. */
export function idempotencyKeyOf({ idempotencyKey }: IdempotentOptions): string {
  return idempotencyKey ?? randomUUID();
}

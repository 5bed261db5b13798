/** A sender with development settings, and helpers for its tests. */
import { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import { HttpSender, type HttpSenderOptions, type SendRequest } from "#webhooks/sending/http-sender.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { PATIENCE_MS } from "#test/support/eventually.ts";

export const developmentPolicy: AddressPolicy = new AddressPolicy({
  allowedCidrs: ["127.0.0.0/8", "::1"],
  allowHttp: true,
  ownListeners: [],
});

/** Creates a sender that may connect to loopback. */
export function createTestSender(options: Partial<HttpSenderOptions> = {}): HttpSender {
  return new HttpSender({
    timers: machineTimers,
    policy: developmentPolicy,
    clock: systemClock,
    ...options,
  });
}

/** Creates a small request with a generous deadline. */
export function requestTo(url: string, options: Partial<SendRequest> = {}): SendRequest {
  return {
    url,
    headers: { "Content-Type": "application/json" },
    body: Buffer.from("{}"),
    deadlineMs: PATIENCE_MS,
    ...options,
  };
}

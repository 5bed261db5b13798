/** A sender as development has it, and what the tests of it share. */
import type { AddressPolicy } from "../../../src/webhooks/sending/address-policy.ts";
import { createAddressPolicy } from "../../../src/webhooks/sending/address-policy.ts";
import type {
  HttpSender,
  HttpSenderOptions,
  SendRequest,
} from "../../../src/webhooks/sending/http-sender.ts";
import { createHttpSender } from "../../../src/webhooks/sending/http-sender.ts";
import { systemClock } from "../../../src/domain/clock.ts";

export const developmentPolicy: AddressPolicy = createAddressPolicy({
  allowedCidrs: ["127.0.0.0/8", "::1"],
  allowHttp: true,
  ownListeners: [],
});

/** A sender that may go to loopback. */
export function createTestSender(options: Partial<HttpSenderOptions> = {}): HttpSender {
  return createHttpSender({ policy: developmentPolicy, clock: systemClock, ...options });
}

/** A small request with a generous deadline. */
export function requestTo(url: string, options: Partial<SendRequest> = {}): SendRequest {
  return {
    url,
    headers: { "Content-Type": "application/json" },
    body: Buffer.from("{}"),
    deadlineMs: 5_000,
    ...options,
  };
}

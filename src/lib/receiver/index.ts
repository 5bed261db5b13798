/** Public exports: verifies signed webhooks, without dependencies. */
export { VerificationError, type VerificationErrorCode } from "./errors.ts";
export { type FastifyReceiverOptions, type FastifySsfOptions, ssfPlugin, webhookPlugin } from "./fastify.ts";
export type { HeaderSource } from "./headers.ts";
export {
  type Listener,
  type ListenerRequest,
  type ListenerResponse,
  ssfListener,
  webhookListener,
} from "./node-http.ts";
export {
  createReceiver,
  type ReceiverOptions,
  type WebhookAnswer,
  type WebhookEvent,
  type WebhookReceiver,
} from "./receive.ts";
export { MemoryReplayStore, type MemoryReplayStoreOptions, type ReplayStore } from "./replay-store.ts";
export { signDelivery, type DeliverySignatures, type SignInput } from "./sign.ts";
export {
  type SecurityEventToken,
  type SetAnswer,
  SetError,
  SsfReceiver,
  type SsfReceiverOptions,
} from "./ssf-receiver.ts";
export { ssfHandler, webhookHandler, type WebHandler, type WebRequest } from "./web.ts";
export { type VerifiedPayload, verify, type VerifyInput } from "./verify.ts";

/** Entry of the workflow bundle. Every export is a workflow type, so each is exported by name. */
export { deadLetter, deliver } from "./deliver.ts";
export { purgeExpired } from "./purge-expired.ts";
export { replayDeadLetters, replayDeliveries } from "./replay-deliveries.ts";
export { rotateCredentials } from "./rotate-credentials.ts";
export { rotateSigningKeys } from "./rotate-signing-keys.ts";
export { signCheckpoint } from "./sign-checkpoint.ts";
export { verifyEndpoint } from "./verify-endpoint.ts";

/** The workflow bundle's entry: every export is a workflow type, so they are named one by one. */
export { deliver } from "./deliver.ts";
export { purgeExpired } from "./purge-expired.ts";
export { replayDeadLetters } from "./replay-dead-letters.ts";
export { rotateCredentials } from "./rotate-credentials.ts";
export { rotateSigningKeys } from "./rotate-signing-keys.ts";
export { signCheckpoint } from "./sign-checkpoint.ts";
export { verifyEndpoint } from "./verify-endpoint.ts";

/**
 * Failures with their message and stack in a payload, which the codec encrypts like every other (src/temporal/codec.ts).
 * The SDK takes converters by path, in the bundle and beside it, so this is a plain module.
 */
import { DefaultFailureConverter } from "@temporalio/common";

export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });

/**
 * Puts the message and stack of failures into a payload, which the codec encrypts (src/temporal/codec.ts). The SDK
 * loads converters by path, inside and outside the bundle, so this is a plain module.
 */
import { DefaultFailureConverter } from "@temporalio/common";

export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });

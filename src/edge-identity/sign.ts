/** The edge's side of the identity headers. */
import type { KeyObject } from "node:crypto";
import {
  type EdgeIdentity,
  IDENTITY_HEADER,
  IDENTITY_SIGNATURE_HEADER,
  identityMac,
  type SignedRequest,
} from "./signature.ts";

/** The two headers of a request to an upstream. */
export function identityHeaders(
  key: KeyObject,
  identity: EdgeIdentity,
  request: SignedRequest,
): Record<typeof IDENTITY_HEADER | typeof IDENTITY_SIGNATURE_HEADER, string> {
  const value = Buffer.from(JSON.stringify(identity)).toString("base64url");
  return {
    [IDENTITY_HEADER]: value,
    [IDENTITY_SIGNATURE_HEADER]: `v1=${identityMac(key, value, request).toString("hex")}`,
  };
}

/** Which client certificate belongs to a credential or an operator. */
import { Type } from "typebox";
import { SPIFFE_ID } from "../../domain/spiffe-id.ts";

const THUMBPRINTS_MAX = 8;

export const SanUri = Type.String({
  pattern: SPIFFE_ID,
  maxLength: 2_048,
  description: "SPIFFE id in the certificate",
});

export const Thumbprints = Type.Array(
  Type.String({ pattern: "^[0-9a-f]{64}$", description: "SHA-256 of the certificate" }),
  { maxItems: THUMBPRINTS_MAX, uniqueItems: true },
);

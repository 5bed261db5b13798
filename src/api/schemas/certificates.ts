/** Which client certificate belongs to a credential or an operator. */
import { Type } from "typebox";

const THUMBPRINTS_MAX = 8;

export const SanUri = Type.String({
  pattern: "^spiffe://[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$",
  maxLength: 2_048,
  description: "SPIFFE id in the certificate",
});

export const Thumbprints = Type.Array(
  Type.String({ pattern: "^[0-9a-f]{64}$", description: "SHA-256 of the certificate" }),
  { maxItems: THUMBPRINTS_MAX, uniqueItems: true },
);

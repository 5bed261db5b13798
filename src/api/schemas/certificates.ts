/** Schemas of the client certificate of a credential or an operator. */
import { Type } from "typebox";
import { SPIFFE_ID } from "#domain/spiffe-id.ts";
import { Formed } from "#http/common.ts";

const THUMBPRINTS_MAX = 8;

export const SanUri = Formed(
  {
    pattern: SPIFFE_ID,
    wanted: "a SPIFFE id such as spiffe://example.org/tenant/acme/client/billing",
  },
  { maxLength: 2_048, description: "SPIFFE id in the certificate" },
);

const Thumbprint = Formed(
  {
    pattern: "^[0-9a-f]{64}$",
    wanted: "the SHA-256 of the certificate: 64 digits of lower-case hexadecimal",
  },
  { description: "SHA-256 of the certificate" },
);

export const Thumbprints = Type.Array(Thumbprint, { maxItems: THUMBPRINTS_MAX, uniqueItems: true });

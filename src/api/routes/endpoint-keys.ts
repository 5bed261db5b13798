/**
 * `/.well-known/webhooks/{id}/jwks.json` (RFC 7517, RFC 8037): the Ed25519 keys that sign the deliveries of an
 * endpoint, or of all endpoints of a tenant. The route is public: anybody with the id may read the keys.
 */
import { Type } from "typebox";
import type { Pool } from "#database/pool.ts";
import { type EndpointPublicKey, findPublicKeys } from "#database/repositories/endpoints/endpoint-secrets.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock } from "#domain/clock.ts";
import { SignetError } from "#domain/errors.ts";
import { JWKS_MAX_AGE_SECONDS } from "#tokens/oauth/jwks.ts";
import type { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import { ANY_ORIGIN, makeJsonDocument, type PublicDocument, sendDocument } from "#http/public-document.ts";
import { Closed, Takes } from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

const ID = /^(?:ep|ten)_[0-9a-z]{24}$/;
/** Maximum keys per document. A tenant with more must read the documents of its endpoints. */
const KEYS_MAX = 1_000;
/** Cache time of a document. Shorter than the time for which a key is published before it signs. */
const KEPT_MS = 10_000;
const DOCUMENTS_MAX = 1_000;
const RAW_KEY = "whpk_".length;

export interface EndpointKeyServices {
  /** Pool with the role signet_issuer. */
  readonly pool: Pool;
  readonly lookups: FruitlessLookups;
  readonly clock: Clock;
}

interface KeptDocument {
  readonly document: PublicDocument;
  readonly untilMs: number;
}

function jsonWebKey({ endpointId, version, publicKey }: EndpointPublicKey): Readonly<Record<string, string>> {
  return {
    kty: "OKP",
    crv: "Ed25519",
    alg: "EdDSA",
    use: "sig",
    kid: `${endpointId}.${version}`,
    x: Buffer.from(publicKey.slice(RAW_KEY), "base64").toString("base64url"),
  };
}

async function makeDocument(
  id: string,
  { pool, clock }: EndpointKeyServices,
): Promise<KeptDocument | undefined> {
  const nowMs = clock.now();
  const keys = await findPublicKeys(pool, id, { now: new Date(nowMs), limit: KEYS_MAX });
  if (keys.length === 0) {
    return undefined;
  }
  return { document: makeJsonDocument({ keys: keys.map(jsonWebKey) }), untilMs: nowMs + KEPT_MS };
}

export function registerEndpointKeyRoutes(server: SignetServer, services: EndpointKeyServices): void {
  const { lookups, clock } = services;
  const documents = new Map<string, KeptDocument>();

  async function documentOf(id: string, address: string): Promise<KeptDocument | undefined> {
    const kept = documents.get(id);
    if (kept !== undefined && clock.now() < kept.untilMs) {
      return kept;
    }
    documents.delete(id);
    const made = await lookups.find(address, async () =>
      ID.test(id) ? await makeDocument(id, services) : undefined,
    );
    if (made !== undefined) {
      putBounded(documents, id, made, DOCUMENTS_MAX);
    }
    return made;
  }

  server.get(
    "/.well-known/webhooks/:id/jwks.json",
    operation({
      id: "endpointKeySet",
      sdk: { none: "Receivers read it, without a token." },
      tag: "endpoints",
      public: true,
      summary: "Read the Ed25519 keys that deliveries are signed with",
      description:
        "RFC 7517. `id` names one endpoint, or a tenant for all its endpoints (the newest 1,000). The set contains the current key, the previous one during its overlap, and the next one. `kid` is the endpoint's id and the version of its secret. With `If-None-Match`, returns 304 if nothing has changed.",
      errors: ["NOT_FOUND", "RATE_LIMITED"],
      documentedResponse: {
        "x-name": "JsonWebKeySet",
        type: "object",
        required: ["keys"],
        properties: { keys: { type: "array", items: { type: "object", additionalProperties: true } } },
      },
      responseExample: {
        keys: [
          {
            kty: "OKP",
            crv: "Ed25519",
            alg: "EdDSA",
            use: "sig",
            kid: "ep_01jd3c5xq8m2v7k9r4t6w0zy.1",
            x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
          },
        ],
      },
      params: Closed({
        id: Type.String({ description: "Id of an endpoint or a tenant", ...Takes("endpoint", "tenant") }),
      }),
    }),
    async (request, reply) => {
      const found = await documentOf(request.params.id, request.clientAddress);
      if (found === undefined) {
        throw new SignetError("NOT_FOUND", {
          detail: "There is no such endpoint or tenant, or it has no public keys.",
        });
      }
      return sendDocument(request, reply, found.document, {
        ...ANY_ORIGIN,
        "cache-control": `public, max-age=${JWKS_MAX_AGE_SECONDS}`,
      });
    },
  );
}

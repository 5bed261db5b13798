/**
 * `/.well-known/status-lists`: signed lists by which verifiers learn of revoked tokens (draft-ietf-oauth-status-list). Public:
 * they name nobody.
 */
import { Type } from "typebox";
import { isId } from "#domain/ids.ts";
import { nothingHere } from "#domain/errors.ts";
import { Closed } from "#http/common.ts";
import { ANY_ORIGIN, makeJsonDocument, sendDocument } from "#http/public-document.ts";
import type { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import type { SignetServer } from "#http/types.ts";
import type { StatusListDocuments } from "#tokens/status-lists/documents.ts";
import { operation } from "../openapi/operation.ts";

const EXAMPLE_LIST = "https://signet.example/.well-known/status-lists/stl_01jd3c5xq8m2v7k9r4t6w0zy";

export interface StatusListServices {
  readonly documents: StatusListDocuments;
  /** Returns the addresses of the lists with live tokens. */
  readonly addresses: () => Promise<readonly string[]>;
  readonly lookups: FruitlessLookups;
}

export function registerStatusListRoutes(server: SignetServer, services: StatusListServices): void {
  const { documents, addresses, lookups } = services;
  const headers = () => ({ ...ANY_ORIGIN, "cache-control": `public, max-age=${documents.ttlSeconds}` });

  server.get(
    "/.well-known/status-lists",
    operation({
      id: "statusLists",
      sdk: { none: "Verifiers of access tokens read it, with a library for JWT." },
      tag: "tokens",
      home: true,
      public: true,
      summary: "List the status lists",
      description:
        "The addresses of the status lists of live tokens (draft-ietf-oauth-status-list, Status List Aggregation), for verifiers that read lists before they meet a token.",
      documentedResponse: {
        "x-name": "StatusListAggregation",
        type: "object",
        required: ["status_lists"],
        properties: { status_lists: { type: "array", items: { type: "string" } } },
      },
      responseExample: { status_lists: [EXAMPLE_LIST] },
    }),
    async (request, reply) =>
      sendDocument(request, reply, makeJsonDocument({ status_lists: await addresses() }), headers()),
  );
  server.get(
    "/.well-known/status-lists/:id",
    operation({
      id: "statusList",
      sdk: { none: "Verifiers of access tokens read it, with a library for JWT." },
      tag: "tokens",
      home: true,
      public: true,
      summary: "Read a status list",
      description:
        "A signed JWT (`typ` is `statuslist+jwt`) with one bit per token (draft-ietf-oauth-status-list): 1 means revoked. Tokens name their list and bit in `status.status_list`. Use a list for `ttl` seconds, and never beyond `exp`. With `If-None-Match`, returns 304 if nothing has changed.",
      errors: ["NOT_FOUND", "RATE_LIMITED", "CLOCK_SKEWED"],
      documentedResponse: { type: "string" },
      responseType: "application/statuslist+jwt",
      responseExample: "eyJhbGciOiJFUzI1NiIs….eyJpc3MiOiJodHRwczovL….MEUCIQ…",
      params: Closed({ id: Type.String({ description: "Id of a status list" }) }),
    }),
    async (request, reply) => {
      const { id } = request.params;
      const found = await lookups.find(request.clientAddress, async () =>
        isId(id, "statusList") ? await documents.of(id) : undefined,
      );
      if (found === undefined) {
        // Also the reason is for pages of any origin.
        void reply.headers(ANY_ORIGIN);
        throw nothingHere();
      }
      return sendDocument(request, reply, found, headers());
    },
  );
}

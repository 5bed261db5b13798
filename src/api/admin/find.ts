/** Finds tenants' objects by id, name, client id or URL, over all tenants. */
import { type Static, Type } from "typebox";
import { findById, FOUND_KINDS, kindOfId, searchText } from "#database/repositories/operator-finds.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import { Closed, Id, List, Nullable, OneOf, Resource, TextLine } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { operation } from "../openapi/operation.ts";
import type { AdminServices } from "./services.ts";
import { presenter } from "#http/present.ts";

/** Minimum length of a searched text, in characters. */
const TEXT_MIN = 3;
const LIMIT_MAX = 50;

const FoundItem = Resource("FoundItem", {
  kind: OneOf(FOUND_KINDS),
  id: Type.String(),
  tenant_id: Id("tenant"),
  tenant_name: Type.String(),
  label: Type.String({
    description: "Name, client id, URL without its query, event type, or the id of a replay job",
  }),
  state: Nullable(Type.String()),
});

export type FindServices = Pick<AdminServices, "pool" | "readAudit">;

/** A search by an operator. */
export interface Search {
  readonly text: string;
  readonly limit: number;
  readonly operator: OperatorIdentity;
  readonly requestId: string;
}

const toFoundItem = presenter(FoundItem);

/** Finds an id or a text, on record. The entry names what was found by id, never the text. */
export async function findOnRecord(
  { pool, readAudit }: FindServices,
  { text, limit, operator, requestId }: Search,
): Promise<Static<typeof FoundItem>[]> {
  const byId = kindOfId(text) === undefined ? undefined : await findById(pool, text);
  const read = { operatorId: operator.id, operation: "find", requestId };
  await readAudit.noteTenant({ ...read, tenantId: byId?.tenant_id ?? null, target: byId?.id ?? null });
  if (kindOfId(text) !== undefined) {
    return byId === undefined ? [] : [toFoundItem(byId)];
  }
  return (await searchText(pool, text, limit)).map(toFoundItem);
}

export function registerFind(server: SignetServer, services: FindServices): void {
  server.get(
    "/admin/v1/find",
    operation({
      id: "find",
      tag: "support",
      operator: "read",
      audits: "tenant.read",
      summary: "Find a tenant, principal, credential, endpoint, event, delivery or replay job",
      description:
        "`q` is a whole id, or three or more characters of a tenant's or principal's name, a client id, or a URL up to its query, in any case. An entry `tenant.read` records the search without its text.",
      querystring: Closed({
        q: TextLine(256, {
          minLength: TEXT_MIN,
          description: "Id, or part of a name, client id or URL",
          examples: ["acme"],
        }),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX, default: 20 })),
      }),
      response: { 200: List(FoundItem) },
    }),
    async ({ query: { q, limit = 20 }, operator, id: requestId }) => ({
      data: await findOnRecord(services, { text: q.trim(), limit, operator, requestId }),
    }),
  );
}

/** The compliance log for tenants: their own entries, and proofs that the log is unchanged. */
import type { Pool, Queryable } from "../../database/pool.ts";
import { listEntries } from "../../database/repositories/compliance-entries.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import {
  consistencyProof,
  entriesPage,
  ENTRY_FILTERS,
  inclusionProof,
  requireCheckpoint,
  requireEntry,
  sendCheckpoint,
} from "../compliance-reads.ts";
import { Closed, Page, PageQuery } from "../../http/common.ts";
import {
  Checkpoint,
  ConsistencyProof,
  ConsistencyQuery,
  Entry,
  EntryParams,
  EntryWithBytes,
  InclusionProof,
  InclusionQuery,
  presentEntryWithBytes,
} from "../schemas/compliance.ts";
import type { SignetServer } from "../../http/types.ts";

const TAGS = ["compliance"];
const CONFIG = { scopes: ["compliance:read"] } as const;

const EntriesQuery = Closed({ ...ENTRY_FILTERS, ...PageQuery });

type Read = <T>(tenantId: string, work: (db: Queryable) => Promise<T>) => Promise<T>;

/** @param pool pool with the role signet_api, which row-level security limits to the tenant's entries */
export function registerComplianceRoutes(server: SignetServer, pool: Pool): void {
  const read: Read = async (tenantId, work) => await tenantTransaction(pool, tenantId, work);
  registerEntries(server, read);
  registerProofs(server, read);
}

function registerEntries(server: SignetServer, read: Read): void {
  server.get(
    "/v1/compliance/entries",
    {
      config: CONFIG,
      schema: { tags: TAGS, querystring: EntriesQuery, response: { 200: Page(Entry) } },
    },
    async (request) => {
      const { tenantId } = request.identity;
      return await entriesPage(
        request,
        async (filter, page) =>
          await read(tenantId, async (db) => await listEntries(db, { ...filter, tenantId }, page)),
      );
    },
  );

  server.get(
    "/v1/compliance/entries/:idx",
    {
      config: CONFIG,
      schema: { tags: TAGS, params: EntryParams, response: { 200: EntryWithBytes } },
    },
    async ({ identity: { tenantId }, params }) =>
      presentEntryWithBytes(
        await read(tenantId, async (db) => await requireEntry(db, Number(params.idx), tenantId)),
      ),
  );
}

function registerProofs(server: SignetServer, read: Read): void {
  server.get(
    "/v1/compliance/checkpoint",
    {
      config: CONFIG,
      schema: {
        tags: TAGS,
        description: "Returns the newest checkpoint; with `Accept: text/plain`, only the signed note",
        response: { 200: Checkpoint },
      },
    },
    async (request, reply) =>
      await sendCheckpoint(request, reply, await read(request.identity.tenantId, requireCheckpoint)),
  );

  server.get(
    "/v1/compliance/proof/inclusion",
    {
      config: CONFIG,
      schema: {
        tags: TAGS,
        description: "Proves that an entry of the tenant is in a signed tree",
        querystring: InclusionQuery,
        response: { 200: InclusionProof },
      },
    },
    async ({ identity: { tenantId }, query }) =>
      await read(tenantId, async (db) => await inclusionProof(db, query, tenantId)),
  );

  server.get(
    "/v1/compliance/proof/consistency",
    {
      config: CONFIG,
      schema: {
        tags: TAGS,
        description: "Proves that a signed tree extends an earlier one",
        querystring: ConsistencyQuery,
        response: { 200: ConsistencyProof },
      },
    },
    async ({ identity: { tenantId }, query }) =>
      await read(tenantId, async (db) => await consistencyProof(db, query)),
  );
}

/** The compliance log for tenants: their own entries, and proofs that the log is unchanged. */
import type { Pool, Queryable } from "#database/pool.ts";
import { listEntries } from "#database/repositories/compliance-entries.ts";
import { tenantTransaction } from "#database/transaction.ts";
import {
  consistencyProof,
  entriesPage,
  ENTRY_FILTERS,
  inclusionProof,
  READS,
  requireCheckpoint,
  requireEntry,
  sendCheckpoint,
} from "../compliance-reads.ts";
import { Closed, Page, PageQuery } from "#http/common.ts";
import { Entry, toEntryWithBytes } from "../schemas/compliance.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

const OPERATION = { tag: "compliance", home: true, scopes: ["compliance:read"] } as const;

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
    operation({
      ...OPERATION,
      id: "listComplianceEntries",
      sdk: "compliance.list",
      summary: "List the tenant's entries of the compliance log",
      description: "Newest first; can be filtered by type and time. Entries are never changed or removed.",
      querystring: EntriesQuery,
      response: { 200: Page(Entry) },
    }),
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
    operation({
      ...OPERATION,
      ...READS.entry,
      id: "getComplianceEntry",
      sdk: { name: "compliance.get", names: { idx: "index" } },
      summary: "Read an entry with the bytes that its hash covers",
      description: "The leaf hash is the SHA-256 of a zero byte followed by these bytes (RFC 6962).",
      responseExample: {
        index: 42,
        at: "2025-11-20T14:46:40.000Z",
        type: "credential.revoked",
        actor: "operator:opr_01jd3c5xq8m2v7k9r4t6w0zy",
        tenant_id: "ten_01jd3c5xq8m2v7k9r4t6w0zy",
        target: "crd_01jd3c5xq8m2v7k9r4t6w0zy",
        reason: "found in a public repository",
        request_id: "req_01jd3c5xq8m2v7k9r4t6w0zy",
        details: { sequence: 7 },
        leaf_hash: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        entry: "eyJhdCI6IjIwMjUtMTEtMjBUMTQ6NDY6NDAuMDAwWiJ9",
      },
    }),
    async ({ identity: { tenantId }, params }) =>
      toEntryWithBytes(
        await read(tenantId, async (db) => await requireEntry(db, Number(params.idx), tenantId)),
      ),
  );
}

function registerProofs(server: SignetServer, read: Read): void {
  server.get(
    "/v1/compliance/checkpoint",
    operation({
      ...OPERATION,
      ...READS.checkpoint,
      id: "getCheckpoint",
      sdk: "compliance.checkpoint",
      summary: "Read the newest signed checkpoint",
      description:
        "A signed note (c2sp.org/tlog-checkpoint) over the whole log. With `Accept: text/plain`, returns the note alone.",
    }),
    async (request, reply) =>
      await sendCheckpoint(request, reply, await read(request.identity.tenantId, requireCheckpoint)),
  );

  server.get(
    "/v1/compliance/proof/inclusion",
    operation({
      ...OPERATION,
      ...READS.inclusion,
      id: "getInclusionProof",
      sdk: {
        name: "compliance.verify",
        byHand: ["typescript"],
        missing: ["go", "python"],
        text: "Verify that an entry is in the signed log and, with earlier checkpoints, that this is still the same log. No answer of the service is trusted without proof. An entry that is younger than the newest checkpoint fails with `INVALID_REQUEST`",
      },
      summary: "Prove that an entry is in a signed tree",
      description:
        "Returns the hashes from the leaf to the root (RFC 6962 section 2.1.1), for one of the tenant's entries.",
    }),
    async ({ identity: { tenantId }, query }) =>
      await read(tenantId, async (db) => await inclusionProof(db, query, tenantId)),
  );

  server.get(
    "/v1/compliance/proof/consistency",
    operation({
      ...OPERATION,
      ...READS.consistency,
      id: "getConsistencyProof",
      sdk: { name: "compliance.verify", byHand: ["typescript"], missing: ["go", "python"] },
      summary: "Prove that a signed tree extends an earlier one",
      description: "RFC 6962 section 2.1.2: no earlier entry has been changed since.",
    }),
    async ({ identity: { tenantId }, query }) =>
      await read(tenantId, async (db) => await consistencyProof(db, query)),
  );
}

/** The compliance log for operators. */
import { Readable } from "node:stream";
import { Type } from "typebox";
import { encodeItem } from "#compliance/log-items.ts";
import { readLog } from "#compliance/read-log.ts";
import type { Pool } from "#database/pool.ts";
import { listEntries } from "#database/repositories/compliance-entries.ts";
import type { Logger } from "#observability/logger.ts";
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
import { Closed, Formed, Id, Page, PageQuery } from "#http/common.ts";
import { Entry, toEntryWithBytes } from "../schemas/compliance.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { breakOffUnlessAdmitted } from "#http/while-admitted.ts";
import { isStillAllowed } from "./operator-guard.ts";
import type { AdminServices } from "./services.ts";

const Filters = {
  tenant_id: Type.Optional(Id("tenant")),
  ...ENTRY_FILTERS,
  actor: Type.Optional(
    Formed(
      {
        pattern: "^(credential|operator|system):[a-z0-9_.-]{1,64}$",
        wanted: "an actor such as operator:bootstrap: credential, operator or system, a colon and its id",
        shown: true,
      },
      { maxLength: 76 },
    ),
  ),
};

/** Interval of the checks that the export's reader is still admitted, in milliseconds; each queries the database. */
const ADMISSION_CHECK_MS = 100;
const OPERATION = { tag: "audit", operator: "read" } as const;

export function registerAuditRoutes(server: SignetServer, services: AdminServices): void {
  const { auditPool } = services;
  registerList(server, auditPool);
  registerMember(server, auditPool);
  registerProofs(server, auditPool);
  registerExport(server, services);
}

function registerList(server: SignetServer, auditPool: Pool): void {
  server.get(
    "/admin/v1/audit",
    operation({
      ...OPERATION,
      id: "listAuditEntries",
      summary: "List entries of the compliance log",
      description: "Entries of all tenants, newest first.",
      querystring: Closed({ ...Filters, ...PageQuery }),
      response: { 200: Page(Entry) },
    }),
    async (request) => {
      const { tenant_id: tenantId, actor } = request.query;
      return await entriesPage(
        request,
        async (filter, page) => await listEntries(auditPool, { ...filter, tenantId, actor }, page),
      );
    },
  );
}

function registerMember(server: SignetServer, auditPool: Pool): void {
  server.get(
    "/admin/v1/audit/:idx",
    operation({
      ...OPERATION,
      ...READS.entry,
      id: "getAuditEntry",
      summary: "Read an entry of the compliance log",
      description: "Includes the bytes that the leaf hash covers.",
    }),
    async ({ params }) => toEntryWithBytes(await requireEntry(auditPool, Number(params.idx), undefined)),
  );
}

function registerProofs(server: SignetServer, auditPool: Pool): void {
  server.get(
    "/admin/v1/audit/checkpoint",
    operation({
      ...OPERATION,
      ...READS.checkpoint,
      id: "getAuditCheckpoint",
      summary: "Read the newest signed checkpoint",
      description: "A signed note (C2SP) over the tree's root; 404 before the first checkpoint.",
    }),
    async (request, reply) => await sendCheckpoint(request, reply, await requireCheckpoint(auditPool)),
  );

  server.get(
    "/admin/v1/audit/proof/inclusion",
    operation({
      ...OPERATION,
      ...READS.inclusion,
      id: "getAuditInclusionProof",
      summary: "Prove that an entry is in the log",
      description: "Returns the sibling hashes on the entry's path to the root (RFC 9162).",
    }),
    async ({ query }) => await inclusionProof(auditPool, query, undefined),
  );

  server.get(
    "/admin/v1/audit/proof/consistency",
    operation({
      ...OPERATION,
      ...READS.consistency,
      id: "getAuditConsistencyProof",
      summary: "Prove that the log has only grown",
      description: "Compares the trees of two sizes (RFC 9162).",
    }),
    async ({ query }) => await consistencyProof(auditPool, query),
  );
}

/** Yields the lines of the export. On an error it ends without the last line, so that the reader notices. */
async function* exportLines(auditPool: Pool, log: Logger): AsyncGenerator<string> {
  try {
    for await (const items of readLog(auditPool)) {
      yield items.map((item) => `${encodeItem(item)}\n`).join("");
    }
  } catch (error) {
    log.error({ err: error }, "export of the compliance log failed");
    throw error;
  }
}

function registerExport(
  server: SignetServer,
  { auditPool, access, clients, log, timers }: AdminServices,
): void {
  server.get(
    "/admin/v1/audit/export",
    operation({
      ...OPERATION,
      id: "exportAudit",
      summary: "Export the compliance log",
      description:
        "Returns the whole log and its checkpoints, one JSON object per line, as `signet audit verify` reads it. A truncated response is not the whole log.",
      documentedResponse: { type: "string", description: "One JSON object per line" },
      responseType: "application/x-ndjson",
      responseExample: '{"kind":"entry","index":0}\n',
    }),
    async (request, reply) => {
      breakOffUnlessAdmitted(reply, {
        isAdmitted: async () => await isStillAllowed(request, { access, clients }, OPERATION.operator),
        timers,
        everyMs: ADMISSION_CHECK_MS,
      });
      const lines = Readable.from(exportLines(auditPool, log), { highWaterMark: 1 });
      return await reply.type("application/x-ndjson").send(lines);
    },
  );
}

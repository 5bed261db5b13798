/** The compliance log for operators: who changed what, and when. */
import { Type } from "typebox";
import { ENTRY_TYPES } from "../../compliance/entry-types.ts";
import { type ComplianceEntryRow, listEntries } from "../../database/repositories/compliance-entries.ts";
import { Instant, queryInstant } from "../instants.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, Id, Nullable, OneOf, Page, PageQuery, Timestamp } from "../schemas/common.ts";
import type { SignetServer } from "../types.ts";
import type { AdminServices } from "./services.ts";

/** A place in the log: what lists are paged by. */
const INDEX_REGEX = /^(0|[1-9]\d{0,14})$/;

const Entry = Type.Object({
  index: Type.Integer({ description: "Place in the log, from 0 without gaps" }),
  at: Timestamp,
  type: Type.String(),
  actor: Type.String(),
  tenant_id: Nullable(Type.String()),
  target: Nullable(Type.String()),
  reason: Nullable(Type.String()),
  request_id: Nullable(Type.String()),
  details: Type.Unsafe<unknown>({ type: "object", additionalProperties: true }),
  leaf_hash: Type.String({ description: "RFC 6962 leaf hash of the entry, hexadecimal" }),
});

const Filters = {
  tenant_id: Type.Optional(Id("tenant")),
  type: Type.Optional(OneOf(ENTRY_TYPES)),
  actor: Type.Optional(
    Type.String({ pattern: "^(credential|operator|system):[a-z0-9_.-]{1,64}$", maxLength: 76 }),
  ),
  from: Type.Optional(Instant),
  to: Type.Optional(Instant),
};

interface EntryMembers {
  readonly at: string;
  readonly type: string;
  readonly actor: string;
  readonly tenant: string | null;
  readonly target: string | null;
  readonly reason: string | null;
  readonly request_id: string | null;
  readonly details: unknown;
}

function presentEntry({ idx, entry, leaf_hash: leafHash }: ComplianceEntryRow) {
  const { at, type, actor, tenant, target, reason, request_id, details } = JSON.parse(
    entry.toString("utf8"),
  ) as EntryMembers;
  const members = { at, type, actor, tenant_id: tenant, target, reason, request_id, details };
  return { index: idx, ...members, leaf_hash: leafHash.toString("hex") };
}

export function registerAuditRoute(server: SignetServer, { auditPool }: AdminServices): void {
  server.get(
    "/admin/v1/audit",
    {
      config: { operator: "read" },
      schema: {
        tags: ["audit"],
        querystring: Closed({ ...Filters, ...PageQuery }),
        response: { 200: Page(Entry) },
      },
    },
    async (request) => {
      const { tenant_id: tenantId, type, actor } = request.query;
      const from = queryInstant(request.query.from, "from");
      const to = queryInstant(request.query.to, "to");
      const page = readPage(request, (key) => INDEX_REGEX.test(key));
      const before = page.before === null ? null : Number(page.before);
      const rows = await listEntries(
        auditPool,
        { tenantId, type, actor, from, to },
        { limit: page.limit, before },
      );
      const { data, next_cursor } = toPage(rows, page, (row) => String(row.idx));
      return { data: data.map(presentEntry), next_cursor };
    },
  );
}

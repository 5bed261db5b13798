/** Faults in what is stored: isolation of tenants, the compliance log, migrations. */
import type { Mutant } from "./mutant.ts";

export const RECORDS: readonly Mutant[] = [
  // Isolation. Elsewhere row-level security hides a missing condition, and the condition a missing policy.
  {
    name: "events-go-to-all-tenants",
    breaks: "A tenant's events go to its own endpoints (architecture 4)",
    file: "src/database/repositories/webhooks/events.ts",
    find: "LEFT JOIN endpoints e ON e.tenant_id = w.tenant_id AND ${takes",
    replace: "LEFT JOIN endpoints e ON ${takes",
    caughtBy: "test/promises/isolation.test.ts",
  },
  {
    name: "sealed-values-move-between-tenants",
    breaks: "A sealed value opens only in its own row of its own tenant (docs/security-model.md)",
    file: "src/crypto/envelope.ts",
    find: "return `${table}|${tenantId}|${id}|${version}`;",
    replace: "return `${table}|${tenantId.slice(0, 4)}|${id}|${version}`;",
    caughtBy: "test/unit/crypto/envelope.test.ts",
  },
  {
    name: "table-without-row-security",
    breaks: "Row-level security protects every table of tenants, also from its owner (architecture 4)",
    file: "src/database/migrations/0028-portal.sql",
    find: "ALTER TABLE portal_sessions FORCE ROW LEVEL SECURITY;\n",
    replace: "",
    caughtBy: "test/unit/repository/migrations.test.ts",
  },
  {
    name: "operators-read-content",
    breaks: "Operators view a tenant without the content of events (docs/operations.md, The console)",
    file: "src/portal/operator/console.ts",
    find: '"compliance:read"] as const;',
    replace: '"compliance:read", "events:read"] as const;',
    caughtBy: "test/integration/admin/console.test.ts",
  },
  {
    name: "deadlocked-publish-fails",
    breaks: "A publish that PostgreSQL ends in a deadlock is repeated (docs/guarantees.md)",
    file: "src/webhooks/ingest/ingest.ts",
    find: "const { inserted, outdated } = await retryDeadlocks(\n    async () => await insertEvents(pool, sealed, times, expected),\n  );",
    replace: "const { inserted, outdated } = await insertEvents(pool, sealed, times, expected);",
    caughtBy: "test/integration/api/deadlocks.test.ts",
  },
  {
    name: "lost-deliveries-add-up",
    breaks: "Reconciliation finds deliveries that were accepted and are missing (docs/operations.md)",
    file: "src/database/repositories/webhooks/delivery-balance.ts",
    find: "&& stored.accepted >= promised;",
    replace: "&& stored.accepted <= promised;",
    caughtBy: "test/integration/admin/usage.test.ts",
  },

  // The compliance log.
  {
    name: "revocation-not-logged",
    breaks: "A revocation is written to the compliance log (specification 4)",
    file: "src/database/migrations/0005-compliance-and-revocation.sql",
    find: `  SELECT * INTO appended FROM public.append_compliance_entry(before_index, after_index);
  UPDATE public.rev_clock`,
    replace: `  SELECT size - 1 AS place, root AS leaf INTO appended FROM public.clog_head WHERE log_id = 1;
  UPDATE public.rev_clock`,
    caughtBy: "test/promises/revocation.test.ts",
  },
  {
    name: "log-not-chained",
    breaks: "Each entry of the log is linked to all before it (RFC 6962)",
    file: "src/compliance/merkle.ts",
    find: "node = nodeHash(this.#peaks.pop() as Buffer, node);",
    replace: "node = nodeHash(node, this.#peaks.pop() as Buffer);",
    caughtBy: "test/unit/compliance/merkle.test.ts",
  },
  {
    name: "changed-log-verifies",
    breaks: "`signet audit verify` finds a changed entry, even with its stored hash (docs/compliance-log.md)",
    file: "src/compliance/verify-log.ts",
    find: "if (!this.#tree.root.equals(next.root)) {",
    replace: "if (this.#tree.root.length !== next.root.length) {",
    caughtBy: "test/unit/compliance/verify-log.test.ts",
  },
  {
    name: "checkpoint-signature-not-checked",
    breaks: "A checkpoint is believed only with its key's signature (docs/compliance-log.md)",
    file: "src/lib/transparency-log/signed-note.ts",
    find: "|| !(await verify(publicKey, utf8.encode(text), signature))) {",
    replace: "|| (await verify(publicKey, utf8.encode(text), signature)) === undefined) {",
    caughtBy: "test/unit/lib/transparency-log/signed-note.test.ts",
  },

  // Migrations.
  {
    name: "migration-drops-rows",
    breaks: "An upgrade keeps every row of earlier releases (CONTRIBUTING)",
    file: "src/database/migrations/0041-claimed-by.sql",
    find: 'ALTER TABLE deliveries ADD COLUMN claimed_by text COLLATE "C";\n',
    replace: 'ALTER TABLE deliveries ADD COLUMN claimed_by text COLLATE "C";\nTRUNCATE attempts;\n',
    caughtBy: "test/promises/upgrade.test.ts",
  },
  {
    name: "doctor-resolves-with-an-index",
    breaks: "signet doctor resolves every name as a connection would (docs/operations.md)",
    file: "src/processes/doctor/checks.ts",
    find: "names.map(async (name) => await resolve(name))",
    replace: "names.map(resolve)",
    caughtBy: "test/machine/processes/doctor/names.test.ts",
  },
  {
    name: "ports-never-shared",
    breaks:
      "SIGNET_EDGE_LISTEN_SHARED lets one edge be replaced while another serves (docs/operations.md, Compose)",
    file: "src/runtime/http-server.ts",
    find: "listen({ port, host, reusePort }, resolve)",
    replace: "listen({ port, host, reusePort: reusePort && port < 0 }, resolve)",
    caughtBy: "test/machine/runtime/http-server.test.ts",
  },

  // Databases as people have them.
  {
    name: "password-becomes-host",
    breaks: "A database URL whose password is not encoded leads nowhere else (docs/operations.md)",
    file: "src/config/postgres-url.ts",
    find: "[({ fragment }) => fragment !== undefined,",
    replace: '[({ fragment }) => fragment === "#",',
    caughtBy: "test/unit/config/postgres-url.test.ts",
  },
  {
    name: "sessions-inherit-date-style",
    breaks: "Sessions set what they rely on (docs/operations.md)",
    file: "src/database/role-settings.ts",
    find: '  DateStyle: "ISO",\n',
    replace: "",
    caughtBy: "test/integration/database/as-people-have-it.test.ts",
  },
  {
    name: "any-encoding",
    breaks: "A database of another encoding than UTF8 is not used (docs/operations.md)",
    file: "src/database/server-checks.ts",
    find: 'if (encoding !== "UTF8") {',
    replace: "if (encoding === undefined) {",
    caughtBy: "test/integration/database/as-people-have-it.test.ts",
  },
  {
    name: "table-without-key",
    breaks: "Every table has a primary key, for logical replication (docs/operations.md)",
    file: "src/database/migrations/0058-key-of-delivery-changes.sql",
    find: " PRIMARY KEY;",
    replace: ";",
    caughtBy: "test/integration/database/as-people-have-it.test.ts",
  },
  {
    name: "start-without-reason",
    breaks: "A start that PostgreSQL refuses says in one line why (docs/troubleshooting.md)",
    file: "src/database/access.ts",
    find: "throw unreachable(error, place);",
    replace: "throw error instanceof Error ? error : unreachable(error, place);",
    caughtBy: "test/e2e/start-errors.test.ts",
  },
  {
    name: "demo-does-not-wait",
    breaks: "A first start on a busy machine waits for revocations (docs/getting-started.md)",
    file: "src/processes/demo/patient-fetch.ts",
    find: "if (response.status !== 503) {",
    replace: "if (response.status > 0) {",
    caughtBy: "test/unit/processes/demo/patient-fetch.test.ts",
  },
];

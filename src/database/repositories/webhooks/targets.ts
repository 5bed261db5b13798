/** Targets: what a first attempt needs of its endpoint, for a worker that keeps them in memory (decision 42). */
import type { Queryable } from "#database/pool.ts";
import { joinSecrets, toStoredSecrets } from "../stored-secrets.ts";
import { type LoadedColumns, type LoadedDelivery, TARGET_COLUMNS } from "./attempts.ts";
import { targetVersion } from "./handed-deliveries.ts";

/** The part of a {@link LoadedDelivery} that its endpoint and tenant decide. */
export type Target = Pick<
  LoadedDelivery,
  | "tenantId"
  | "endpointId"
  | "endpointState"
  | "disabledReason"
  | "verifyingSince"
  | "url"
  | "metadata"
  | "requestVersion"
  | "ssfStream"
  | "rateLimit"
  | "secret"
  | "besideSecret"
  | "wrappedDataKey"
  | "heldAt"
> & {
  /** As in {@link targetVersion}. */
  readonly version: string;
};

/** Returns the targets of these endpoints that exist. */
export async function loadTargets(db: Queryable, endpointIds: readonly string[]): Promise<Target[]> {
  const { rows } = await db.query<LoadedColumns & Pick<Target, "version">>({
    name: "load-targets",
    text: `SELECT p.tenant_id AS "tenantId", p.id AS "endpointId", ${TARGET_COLUMNS}, ${targetVersion()} AS version
      FROM endpoints p JOIN tenants t ON t.id = p.tenant_id ${joinSecrets("p.id")} WHERE p.id = ANY ($1::text[])`,
    values: [endpointIds],
  });
  return rows.map((row) => ({ ...row, ...toStoredSecrets(row) }));
}

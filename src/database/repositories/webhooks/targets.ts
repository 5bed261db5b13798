/** Targets: what a first attempt needs of its endpoint, for a worker that keeps them in memory (decision 42). */
import type { Queryable } from "#database/pool.ts";
import { lateral } from "#database/sql.ts";
import {
  type EndpointTarget,
  joinSecrets,
  type SecretColumns,
  type StoredSecrets,
  withSecrets,
} from "../stored-secrets.ts";
import { type LoadedDelivery, TARGET_COLUMNS } from "./attempts.ts";
import { targetVersion } from "./handed-deliveries.ts";

/** The part of a {@link LoadedDelivery} that its endpoint and tenant decide. */
export interface Target
  extends
    EndpointTarget,
    Pick<LoadedDelivery, "endpoint_state" | "disabled_reason" | "verifying_since" | "rate_limit"> {
  /** As in {@link targetVersion}. */
  readonly version: string;
}

/** Returns the targets of these endpoints that exist. */
export async function loadTargets(db: Queryable, endpointIds: readonly string[]): Promise<Target[]> {
  const { rows } = await db.query<Omit<Target, keyof StoredSecrets> & SecretColumns>({
    name: "load-targets",
    text: `SELECT p.tenant_id, p.id AS endpoint_id, ${TARGET_COLUMNS}, ${targetVersion()} AS version
      FROM endpoints p CROSS JOIN ${lateral("tenants", "t", "id = p.tenant_id", "xmin, *")} ${joinSecrets("p.id")}
      WHERE p.id = ANY ($1::text[])`,
    values: [endpointIds],
  });
  return rows.map(withSecrets);
}

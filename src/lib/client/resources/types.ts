/** Types of arguments and answers that are narrower than the schemas, or have a name of their own. */
import type {
  AcceptedBatchItem,
  ComplianceQuery,
  DeliveryQuery,
  EndpointSecretVersions,
  EventQuery,
  EventTypeQuery,
  MissedEvents,
  RefusedBatchItem,
} from "../api-types.ts";
import type { IdempotentOptions } from "../idempotency.ts";
import type { PageOptions } from "../paging.ts";
import type { CallOptions } from "../transport.ts";

/** An accepted item of a batch. */
export interface AcceptedItem extends AcceptedBatchItem {
  readonly error?: never;
}

/** A rejected item of a batch; the others are not affected. */
export interface RefusedItem extends RefusedBatchItem {
  readonly id?: never;
}

export type BatchItem = AcceptedItem | RefusedItem;

export interface ComplianceFilter extends ComplianceQuery, PageOptions {}
export interface DeliveryFilter extends DeliveryQuery, PageOptions {}
export interface EventFilter extends EventQuery, PageOptions {}
export interface EventTypeListOptions extends EventTypeQuery, PageOptions {}

/** Dead letters by id, or by filter. */
export type ReplaySelection =
  | { readonly ids: readonly string[] }
  | { readonly filter: Omit<DeliveryFilter, keyof PageOptions> };

export type ReplayPace = Pick<MissedEvents, "rate_per_second">;

interface Reason {
  /** Goes into the compliance log, so no personal data; at most 500 characters. */
  readonly reason?: string;
}

export interface RevokeOptions extends CallOptions, Reason {}
export interface RevokeLeakedOptions extends IdempotentOptions, Reason {}

/** Signing settings of an endpoint, and its rotation schedule. */
export type SecretSettings = Pick<EndpointSecretVersions, "signing" | "rotation_days" | "recipient">;

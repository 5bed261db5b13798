/** What Temporal's lists and pages show of a `deliver`: its search attributes and current details. */
import { setCurrentDetails, upsertSearchAttributes, workflowInfo } from "@temporalio/workflow";
import type { DeliveryLedger } from "./delivery-ledger.ts";
import { deliverDetails } from "./descriptions.ts";
import { SEARCH_ATTRIBUTES } from "./messages.ts";

/** Attempts that update the search attributes. Each upsert costs a write in Temporal's visibility store. */
const UPSERT_AT: ReadonlySet<number> = new Set([2, 5, 9, 13, 17]);

/** What became of the last request, for the current details. */
export interface Notes {
  last: string | undefined;
}

/** Publishes at some attempts. */
export function publishAttempt(ledger: DeliveryLedger, attempt: number): void {
  if (UPSERT_AT.has(attempt)) {
    publish(ledger, attempt);
  }
}

/**
 * Upserts the changed search attributes only, because each upsert adds an event.
 *
 * @param letters whether to publish the number of dead letters, and when the first expires
 */
export function publish(ledger: DeliveryLedger, attempt: number | undefined, letters = false): void {
  const { typedSearchAttributes } = workflowInfo();
  const { state, open, dead, firstExpiryMs = 0 } = ledger;
  const updates = [
    ...(typedSearchAttributes.get(SEARCH_ATTRIBUTES.state) === state
      ? []
      : [{ key: SEARCH_ATTRIBUTES.state, value: state }]),
    ...(typedSearchAttributes.get(SEARCH_ATTRIBUTES.open) === open
      ? []
      : [{ key: SEARCH_ATTRIBUTES.open, value: open }]),
    ...(attempt === undefined || typedSearchAttributes.get(SEARCH_ATTRIBUTES.attempt) === attempt
      ? []
      : [{ key: SEARCH_ATTRIBUTES.attempt, value: attempt }]),
    ...(!letters || typedSearchAttributes.get(SEARCH_ATTRIBUTES.dead) === dead
      ? []
      : [{ key: SEARCH_ATTRIBUTES.dead, value: dead }]),
    ...(!letters || typedSearchAttributes.get(SEARCH_ATTRIBUTES.expires)?.getTime() === firstExpiryMs
      ? []
      : [{ key: SEARCH_ATTRIBUTES.expires, value: new Date(firstExpiryMs) }]),
  ];
  if (updates.length > 0) {
    upsertSearchAttributes(updates);
  }
}

/** Writes the current details. */
export function describe(ledger: DeliveryLedger, { last }: Notes): void {
  const { namespace, workflowId, typedSearchAttributes } = workflowInfo();
  const endpoints = typedSearchAttributes.get(SEARCH_ATTRIBUTES.endpoint) ?? [];
  const { mixed } = ledger;
  setCurrentDetails(deliverDetails({ namespace, workflowId, endpoints, mixed, last }, ledger.status()));
}

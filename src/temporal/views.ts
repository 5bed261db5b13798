/** Views of Temporal's list of workflows: the links of pages and of `npm start`, and the table of docs/temporal.md. */
import type { Client } from "@temporalio/client";
import { replayWorkflowId, SEARCH_ATTRIBUTES, WORKFLOW_TYPES } from "#workflows/messages.ts";
import type { Config } from "#config/config.ts";
import { DAY_MS, isId } from "#domain/ids.ts";
import { reportsProblems } from "./client.ts";
import { OPEN } from "./open-workflow.ts";

/** Temporal's web UI, for operators' links. */
export interface TemporalUi {
  readonly uiUrl: string | undefined;
  readonly namespace: string;
  /** Whether the server accepts the view of stuck workflows. */
  readonly reportsProblems: () => Promise<boolean>;
}

export interface View {
  readonly name: string;
  readonly shows: string;
  /** Has an id or a time in the place of {@link blank}. */
  readonly query: string;
  /** What a link replaces in the query. */
  readonly blank?: string;
  /** Columns that are worth adding to the UI's own. */
  readonly columns: readonly { readonly name: string }[];
}

const { deliver, deadLetter, verifyEndpoint, replayDeadLetters, replayDeliveries } = WORKFLOW_TYPES;
const UPKEEP = ["purgeExpired", "rotateCredentials", "rotateSigningKeys", "signCheckpoint"] as const;
const { tenant, endpoint, delivery, state, open, attempt, dead, expires } = SEARCH_ATTRIBUTES;
const TIME = "2026-01-31T00:00:00Z";

function among(types: readonly string[]): string {
  return `WorkflowType IN (${types.map((type) => `"${type}"`).join(", ")})`;
}

export const VIEWS = {
  retrying: {
    name: "Retrying",
    shows: "deliveries between two attempts",
    query: `WorkflowType="${deliver}" AND ${OPEN} AND ${state.name}="RETRYING"`,
    columns: [attempt, open, endpoint, tenant],
  },
  deadLetters: {
    name: "Dead letters",
    shows: "the dead-letter queue",
    query: `${dead.name} > 0 AND ${OPEN}`,
    columns: [dead, expires, endpoint, tenant],
  },
  expiringToday: {
    name: "Expiring today",
    shows: "those that expire within 24 hours",
    query: `${expires.name} < "${TIME}" AND ${dead.name} > 0 AND ${OPEN}`,
    blank: TIME,
    columns: [expires, dead, endpoint, tenant],
  },
  stuck: {
    name: "Stuck",
    shows: "workflows whose tasks fail or time out",
    query: `TemporalReportedProblems IS NOT NULL AND ${OPEN}`,
    columns: [{ name: "TemporalReportedProblems" }, state],
  },
  verifications: {
    name: "Verifications",
    shows: "endpoints that are being verified",
    query: `WorkflowType="${verifyEndpoint}" AND ${OPEN}`,
    columns: [endpoint, tenant],
  },
  replayJobs: {
    name: "Replay jobs",
    shows: "jobs that are running or paused",
    query: `${among([replayDeadLetters, replayDeliveries])} AND ${OPEN}`,
    columns: [tenant],
  },
  oneEndpoint: {
    name: "One endpoint",
    shows: "everything of an endpoint, also what has ended",
    query: `${endpoint.name}="ep_…"`,
    blank: "ep_…",
    columns: [state, attempt, dead],
  },
  oneTenant: {
    name: "One tenant",
    shows: "everything of a tenant, also what has ended",
    query: `${tenant.name}="ten_…"`,
    blank: "ten_…",
    columns: [state, attempt, dead, endpoint],
  },
  oneDelivery: {
    name: "One delivery",
    shows: "the carriers of a delivery",
    query: `${delivery.name}="dlv_…"`,
    blank: "dlv_…",
    columns: [state, attempt],
  },
  retryingForLong: {
    name: "Retrying for long",
    shows: "deliveries at attempt 9 or later",
    query: `WorkflowType="${deliver}" AND ${OPEN} AND ${state.name}="RETRYING" AND ${attempt.name} >= 9`,
    columns: [attempt, open, endpoint, tenant],
  },
  largeLists: {
    name: "Large lists",
    shows: "workflows with more than ten deliveries to attempt",
    query: `WorkflowType="${deliver}" AND ${OPEN} AND ${open.name} > 10`,
    columns: [open, state],
  },
  expired: {
    name: "Expired",
    shows: "workflows that ended with expired deliveries",
    query: `${among([deliver, deadLetter])} AND ExecutionStatus="Failed"`,
    columns: [endpoint, tenant],
  },
  failedUpkeep: {
    name: "Upkeep that failed",
    shows: "runs of schedules that ended badly",
    query: `${among(UPKEEP)} AND ExecutionStatus IN ("Failed", "TimedOut")`,
    columns: [],
  },
} as const satisfies Readonly<Record<string, View>>;

/** Returns the web UI of the settings. */
export function temporalUi(
  config: Pick<Config, "temporalUiUrl" | "temporalNamespace">,
  client: Client,
): TemporalUi {
  return {
    uiUrl: config.temporalUiUrl,
    namespace: config.temporalNamespace,
    reportsProblems: async () => await reportsProblems(client),
  };
}

type Place = Pick<TemporalUi, "uiUrl" | "namespace">;

function workflowsUrl({ uiUrl, namespace }: Place, rest: string): string | undefined {
  return uiUrl && `${uiUrl}/namespaces/${encodeURIComponent(namespace)}/workflows${rest}`;
}

/** Returns the URL of a workflow; undefined if the UI is not configured. */
export function workflowUrl(ui: Place, workflowId: string): string | undefined {
  return workflowsUrl(ui, `/${encodeURIComponent(workflowId)}`);
}

/** Returns the query with an id or a time in its blank. */
export function queryOf({ query, blank }: View, value?: string): string {
  return blank === undefined || value === undefined ? query : query.replace(blank, value);
}

/** Returns the URL of a view; undefined if the UI is not configured. */
export function viewUrl(ui: Place, view: View, value?: string): string | undefined {
  return workflowsUrl(ui, `?query=${encodeURIComponent(queryOf(view, value))}`);
}

/**
 * Returns the URL of everything of a tenant, an endpoint or a delivery, or of a replay job's workflow; undefined for
 * another id or without the UI.
 */
export function workflowsOfUrl(ui: Place, id: string): string | undefined {
  if (isId(id, "replay")) {
    return workflowUrl(ui, replayWorkflowId(id));
  }
  const { oneTenant, oneEndpoint, oneDelivery } = VIEWS;
  const view = [oneTenant, oneEndpoint, oneDelivery].find(({ blank }) => id.startsWith(blank.slice(0, -1)));
  return view && viewUrl(ui, view, id);
}

export interface ViewLink {
  readonly name: string;
  readonly shows: string;
  readonly url: string;
}

/** Returns links to what is open now, by kind; none if the UI is not configured. */
export async function openViews(ui: TemporalUi, now: number): Promise<readonly ViewLink[]> {
  if (ui.uiUrl === undefined) {
    return [];
  }
  const { retrying, deadLetters, expiringToday, stuck, verifications, replayJobs } = VIEWS;
  const known = (await ui.reportsProblems()) ? [stuck] : [];
  const today = new Date(now + DAY_MS).toISOString();
  return [retrying, deadLetters, expiringToday, ...known, verifications, replayJobs].flatMap((view) => {
    const url = viewUrl(ui, view, today);
    return url === undefined ? [] : [{ name: view.name, shows: view.shows, url }];
  });
}

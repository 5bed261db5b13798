/** What the portal is made with, and what its pages work with. */
import type { StreamingServices } from "../api/delivery-stream.ts";
import type { ExportDeadLetters } from "../api/routes/dead-letters.ts";
import type { InProcessCalls } from "../api/in-process.ts";
import type { PortalSessions } from "../tokens/portal-sessions.ts";

export interface PortalOptions {
  readonly sessions: PortalSessions;
  readonly calls: InProcessCalls;
  readonly streaming: StreamingServices;
  readonly exportDeadLetters: ExportDeadLetters;
  /** The name in the headers that deliveries carry: `X-<brand>-Timestamp` and others. */
  readonly headerBrand: string;
  /** Where browsers find the portal. */
  readonly portalUrl: string;
  /** Temporal's web UI and the namespace there; operators are led to it. */
  readonly temporal: { readonly uiUrl: string | undefined; readonly namespace: string };
  readonly development: boolean;
}

/** 303: what a form did is not done again by reloading what follows. */
export const SEE_OTHER = 303;

/** One page of a list as the API answers. */
export interface ListAnswer<Item> {
  readonly data: readonly Item[];
  readonly next_cursor: string | null;
}

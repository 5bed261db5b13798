/** Dependencies of the portal and its pages. */
import type { StreamingServices } from "#api/delivery-stream.ts";
import type { ExportDeadLetters } from "#api/routes/dead-letters.ts";
import type { InProcessCalls } from "#api/in-process.ts";
import type { PortalBrands } from "./brand.ts";
import type { TemporalUi } from "#temporal/views.ts";
import type { PortalSessions } from "#tokens/portal-sessions.ts";

/** Dependencies of all pages, for tenants and for operators. */
export interface PageOptions {
  readonly sessions: Pick<PortalSessions, "find" | "isAdmitted">;
  readonly calls: InProcessCalls;
  readonly streaming: StreamingServices;
  readonly exportDeadLetters: ExportDeadLetters;
  /** Brand in the headers of deliveries, for instance `X-<brand>-Timestamp`. */
  readonly headerBrand: string;
  /** Returns why a target URL is not allowed, as a sentence; undefined if it is. */
  readonly urlProblem: (url: string) => string | undefined;
  readonly brands: PortalBrands;
  /** Origins whose pages may show the portal in a frame. */
  readonly frameOrigins: readonly string[];
  /** Public URL of the portal. */
  readonly portalUrl: string;
  readonly temporal: TemporalUi;
  readonly development: boolean;
}

/** Dependencies of the tenants' portal. */
export interface PortalOptions extends PageOptions {
  readonly sessions: PortalSessions;
}

/** 303, so that reloading the next page does not submit the form again. */
export const SEE_OTHER = 303;

/** What the portal is made with, and what its pages work with. */
import type { FastifyReply } from "fastify";
import type { InProcessCalls } from "../api/in-process.ts";
import type { SessionCookie } from "./cookie.ts";
import type { PageContent } from "./layout.ts";
import type { PortalSessions } from "./sessions.ts";
import type { Visit } from "./visit.ts";

export interface PortalOptions {
  readonly sessions: PortalSessions;
  readonly calls: InProcessCalls;
  /** Where browsers find the portal. */
  readonly portalUrl: string;
  /** Temporal's web UI and the namespace there; operators are led to it. */
  readonly temporal: { readonly uiUrl: string | undefined; readonly namespace: string };
  readonly development: boolean;
}

/** What the pages work with. */
export interface PortalParts extends PortalOptions {
  readonly cookie: SessionCookie;
  /** Answers with a page. */
  readonly send: (reply: FastifyReply, visit: Visit | undefined, content: PageContent) => FastifyReply;
}

/** 303: what a form did is not done again by reloading what follows. */
export const SEE_OTHER = 303;

/** One page of a list as the API answers. */
export interface ListAnswer<Item> {
  readonly data: readonly Item[];
  readonly next_cursor: string | null;
}

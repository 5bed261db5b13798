/** Dependencies of every page. */
import type { FastifyReply } from "fastify";
import type { Assets } from "./assets.ts";
import type { PageOptions } from "./context.ts";
import type { SessionCookie } from "./cookie.ts";
import type { PageContent } from "./layout.ts";
import type { Visit } from "./visit.ts";

export interface PortalServices extends PageOptions {
  readonly cookie: SessionCookie;
  readonly assets: Pick<Assets, "path">;
  /** Sends a page. */
  readonly send: (reply: FastifyReply, visit: Visit | undefined, content: PageContent) => FastifyReply;
}

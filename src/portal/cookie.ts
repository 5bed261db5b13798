/** The session cookie. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { elementsOf } from "#http/list-header.ts";

export interface SessionCookie {
  read(request: FastifyRequest): string | undefined;
  write(reply: FastifyReply, secret: string): void;
  clear(reply: FastifyReply): void;
}

function valuesOf({ headers }: FastifyRequest, name: string): string[] {
  return elementsOf(headers.cookie ?? "", ";")
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
}

/** Checks whether another page shows this one in a frame (Fetch Metadata). */
function isFramed({ headers }: FastifyRequest): boolean {
  return headers["sec-fetch-dest"] === "iframe";
}

/**
 * Creates a cookie of its own for each kind of visitor, because cookies do not depend on the port. In a frame it is another one: partitioned, so that only pages below the same top-level site send
 * it, and without SameSite, which would withhold it from a frame of another site.
 *
 * @param options.secure false in development, where browsers use plain HTTP; `__Host-` requires Secure (RFC 6265bis)
 * @param options.framed whether pages of other origins may show the portal in a frame
 */
export function createSessionCookie({
  secure,
  framed = false,
  kind = "portal",
}: {
  readonly secure: boolean;
  readonly framed?: boolean;
  readonly kind?: "operator" | "portal";
}): SessionCookie {
  const prefix = secure ? "__Host-" : "";
  const own = {
    name: `${prefix}signet_${kind}`,
    attributes: `Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`,
  };
  const inFrame = {
    name: `${prefix}signet_${kind}_frame`,
    // Browsers also accept Secure from http on this machine.
    attributes: "Path=/; HttpOnly; SameSite=None; Secure; Partitioned",
  };
  const removed = ({ name, attributes }: typeof own): string => `${name}=; ${attributes}; Max-Age=0`;
  return {
    read: (request) => {
      const names = framed ? [inFrame.name, own.name] : [own.name];
      const values = names.map((name) => valuesOf(request, name)).find((found) => found.length > 0) ?? [];
      // If there are two, one may come from another site, so accept neither.
      return values.length === 1 ? values[0] : undefined;
    },
    // A session cookie without Max-Age; the service limits the session's lifetime.
    write: (reply, secret) => {
      const chosen = framed && isFramed(reply.request) ? inFrame : own;
      const other = chosen === own ? inFrame : own;
      reply.header("set-cookie", `${chosen.name}=${secret}; ${chosen.attributes}`);
      if (framed) {
        // A browser has one session, so that it is clear which one a page belongs to.
        reply.header("set-cookie", removed(other));
      }
    },
    clear: (reply) => {
      for (const cookie of framed ? [own, inFrame] : [own]) {
        reply.header("set-cookie", removed(cookie));
      }
    },
  };
}

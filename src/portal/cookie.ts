/** The session cookie. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { elementsOf } from "#http/list-header.ts";

function valuesOf({ headers }: FastifyRequest, name: string): string[] {
  return elementsOf(headers.cookie ?? "", ";")
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
}

/** Checks whether another page shows this one in a frame (Fetch Metadata). */
function isFramed({ headers }: FastifyRequest): boolean {
  return headers["sec-fetch-dest"] === "iframe";
}

/** A cookie's name and attributes. */
interface Cookie {
  readonly name: string;
  readonly attributes: string;
}

function removed({ name, attributes }: Cookie): string {
  return `${name}=; ${attributes}; Max-Age=0`;
}

/**
 * A cookie of its own for each kind of visitor, because cookies do not depend on the port. In a frame it is another one:
 * partitioned, so that only pages below the same top-level site send it, and without SameSite, which would withhold it
 * from a frame of another site.
 */
export class SessionCookie {
  /** The one outside frames first. */
  readonly #cookies: readonly Cookie[];

  /**
   * @param options.secure false in development, where browsers use plain HTTP; `__Host-` requires Secure (RFC 6265bis)
   * @param options.framed whether pages of other origins may show the portal in a frame
   */
  constructor({
    secure,
    framed = false,
    kind = "portal",
  }: {
    readonly secure: boolean;
    readonly framed?: boolean;
    readonly kind?: "operator" | "portal";
  }) {
    const name = `${secure ? "__Host-" : ""}signet_${kind}`;
    const own = { name, attributes: `Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}` };
    // Browsers also accept Secure from http on this machine.
    const attributes = "Path=/; HttpOnly; SameSite=None; Secure; Partitioned";
    this.#cookies = framed ? [own, { name: `${name}_frame`, attributes }] : [own];
  }

  read(request: FastifyRequest): string | undefined {
    const values = this.#cookies.map(({ name }) => valuesOf(request, name));
    const found = values.findLast(({ length }) => length > 0) ?? [];
    // If there are two, one may come from another site, so accept neither.
    return found.length === 1 ? found[0] : undefined;
  }

  /** Writes a session cookie without Max-Age; the service limits the session's lifetime. */
  write(reply: FastifyReply, secret: string): void {
    const chosen = this.#cookies.at(isFramed(reply.request) ? -1 : 0) as Cookie;
    reply.header("set-cookie", `${chosen.name}=${secret}; ${chosen.attributes}`);
    // A browser has one session, so that it is clear which one a page belongs to.
    for (const other of this.#cookies.filter((cookie) => cookie !== chosen)) {
      reply.header("set-cookie", removed(other));
    }
  }

  clear(reply: FastifyReply): void {
    for (const cookie of this.#cookies) {
      reply.header("set-cookie", removed(cookie));
    }
  }
}

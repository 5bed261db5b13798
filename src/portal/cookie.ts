/** The session cookie. */
import type { FastifyReply, FastifyRequest } from "fastify";

export interface SessionCookie {
  read(request: FastifyRequest): string | undefined;
  write(reply: FastifyReply, secret: string): void;
  clear(reply: FastifyReply): void;
}

/**
 * Creates a cookie of its own for each kind of visitor, because cookies do not depend on the port.
 *
 * @param secure false in development, where browsers use plain HTTP; `__Host-` requires Secure (RFC 6265bis)
 */
export function createSessionCookie(secure: boolean, kind: "operator" | "portal" = "portal"): SessionCookie {
  const name = `${secure ? "__Host-" : ""}signet_${kind}`;
  const attributes = `Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
  return {
    read: ({ headers }) => {
      const values = (headers.cookie ?? "")
        .split(";")
        .map((pair) => pair.trim())
        .filter((pair) => pair.startsWith(`${name}=`))
        .map((pair) => pair.slice(name.length + 1));
      // If there are two, one may come from another site, so accept neither.
      return values.length === 1 ? values[0] : undefined;
    },
    // A session cookie without Max-Age; the service limits the session's lifetime.
    write: (reply, secret) => void reply.header("set-cookie", `${name}=${secret}; ${attributes}`),
    clear: (reply) => void reply.header("set-cookie", `${name}=; ${attributes}; Max-Age=0`),
  };
}

/** `/errors/{slug}`: what the `type` of a problem document leads to, as JSON and, for who asks for it, as a page. */
import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import { ERROR_CATALOGUE, type ErrorCode, errorSlug, SignetError } from "../../errors.ts";
import { prefersHtml } from "../accept.ts";
import { ERROR_DESCRIPTIONS } from "../error-descriptions.ts";
import { Closed } from "../schemas/common.ts";
import type { SignetServer } from "../types.ts";

const CODES = new Map((Object.keys(ERROR_CATALOGUE) as ErrorCode[]).map((code) => [errorSlug(code), code]));

const ErrorType = Type.Object({
  code: Type.String(),
  title: Type.String(),
  status: Type.Integer(),
  description: Type.String(),
  causes: Type.Array(Type.String()),
  remedies: Type.Array(Type.String()),
});

/**
 * The page of each problem type.
 *
 * @param sendPage answers with the page of a code, or with the one of codes that do not exist
 */
export function registerErrorTypeRoutes(
  server: SignetServer,
  sendPage: (reply: FastifyReply, code: ErrorCode | undefined) => FastifyReply,
): void {
  server.get(
    "/errors/:slug",
    {
      config: { public: true },
      schema: { hide: true, params: Closed({ slug: Type.String() }), response: { 200: ErrorType } },
    },
    async ({ params, headers }, reply) => {
      const code = CODES.get(params.slug);
      const asPage = prefersHtml(headers.accept);
      reply.header("vary", "accept");
      if (code === undefined && asPage) {
        return sendPage(reply.header("cache-control", "no-store"), undefined);
      }
      if (code === undefined) {
        throw new SignetError("NOT_FOUND", { detail: "There is no such error." });
      }
      reply.header("cache-control", "public, max-age=3600");
      if (asPage) {
        return sendPage(reply, code);
      }
      const { meaning: description, causes, remedies } = ERROR_DESCRIPTIONS[code];
      return { code, ...ERROR_CATALOGUE[code], description, causes: [...causes], remedies: [...remedies] };
    },
  );
}

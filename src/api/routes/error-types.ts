/** `/errors/{slug}`: what the `type` of a problem document leads to, for people. */
import { Type } from "typebox";
import { ERROR_CATALOGUE, type ErrorCode, errorSlug, SignetError } from "../../errors.ts";
import { ERROR_DESCRIPTIONS } from "../error-descriptions.ts";
import { Closed } from "../schemas/common.ts";
import type { SignetServer } from "../types.ts";

const CODES = new Map((Object.keys(ERROR_CATALOGUE) as ErrorCode[]).map((code) => [errorSlug(code), code]));

const ErrorType = Type.Object({
  code: Type.String(),
  title: Type.String(),
  status: Type.Integer(),
  description: Type.String(),
});

/** The page of each problem type. */
export function registerErrorTypeRoutes(server: SignetServer): void {
  server.get(
    "/errors/:slug",
    {
      config: { public: true },
      schema: { hide: true, params: Closed({ slug: Type.String() }), response: { 200: ErrorType } },
    },
    async ({ params }, reply) => {
      const code = CODES.get(params.slug);
      if (code === undefined) {
        throw new SignetError("NOT_FOUND", { detail: "There is no such error." });
      }
      reply.header("cache-control", "public, max-age=3600");
      return { code, ...ERROR_CATALOGUE[code], description: ERROR_DESCRIPTIONS[code] };
    },
  );
}

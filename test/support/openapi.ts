/** The routes of the running API, as its own description lists them. */
import type { TestApi } from "./api.ts";

/** One operation. */
export interface ApiRoute {
  /** Upper case. */
  readonly method: string;
  /** With `{name}` for parameters. */
  readonly path: string;
  /** Null: open to everybody, or guarded by itself. */
  readonly scopes: readonly string[] | null;
  /** Names of the query parameters. */
  readonly query: readonly string[];
  readonly takesBody: boolean;
}

interface Operation {
  readonly security?: readonly { readonly bearer?: readonly string[] }[];
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly requestBody?: unknown;
}

/** Every operation of `/openapi.json`. */
export async function apiRoutes(api: TestApi): Promise<ApiRoute[]> {
  const { body } = await api.request("/openapi.json");
  const paths = Object.entries(body["paths"] as Record<string, Record<string, Operation>>);
  return paths.flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { security, parameters = [], requestBody }]) => ({
      method: method.toUpperCase(),
      path,
      scopes: security?.[0]?.bearer ?? null,
      query: parameters.filter((parameter) => parameter.in === "query").map(({ name }) => name),
      takesBody: requestBody !== undefined,
    })),
  );
}

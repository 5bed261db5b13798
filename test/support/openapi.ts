/** The routes of the running API, from its OpenAPI document. */
import type { OperatorRole } from "#domain/operator-roles.ts";
import type { TestApi } from "./api.ts";

/** One operation. */
export interface ApiRoute {
  /** In upper case. */
  readonly method: string;
  /** Path with `{name}` for parameters. */
  readonly path: string;
  /** Required scopes; null for public routes and for those with their own authentication. */
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

/** Returns every operation of `/openapi.json`. */
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

/** One operation of the operators' API. */
export interface AdminRoute {
  readonly method: string;
  /** Path below `/admin/v1`, with `{name}` for parameters. */
  readonly path: string;
  readonly role: OperatorRole;
  /** Types of the compliance entries; null for operations that change nothing. */
  readonly audits: string | readonly string[] | null;
  readonly takesBody: boolean;
}

interface AdminOperation extends Operation {
  readonly "x-operator-role"?: OperatorRole;
  readonly "x-audits"?: string | readonly string[];
}

/** Returns every operation of `/admin/v1/openapi.json` for operators. */
export async function adminRoutes(api: TestApi): Promise<AdminRoute[]> {
  const { body } = await api.admin("GET", "/openapi.json");
  const paths = Object.entries(body["paths"] as Record<string, Record<string, AdminOperation>>);
  return paths.flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, operation]) => {
      const role = operation["x-operator-role"];
      const described = {
        method: method.toUpperCase(),
        path: path.replace("/admin/v1", ""),
        audits: operation["x-audits"] ?? null,
        takesBody: operation.requestBody !== undefined,
      };
      return role === undefined ? [] : [{ ...described, role }];
    }),
  );
}

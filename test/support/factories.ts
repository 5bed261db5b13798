/** Creates tenants with everything that a token needs, as an operator does. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { ServiceUnderTest } from "./api.ts";

/** A service with an operators' API. */
interface Operated extends Pick<ServiceUnderTest, "admin"> {
  /** Body of credential requests by default. */
  readonly credential?: Readonly<Record<string, unknown>>;
}

export interface Provisioned {
  readonly tenantId: string;
  readonly roleId: string;
  readonly principalId: string;
  readonly credentialId: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface ProvisionOptions {
  readonly scopes?: readonly string[];
  readonly environment?: "production" | "development";
  readonly region?: string;
  /** Body of the credential request. */
  readonly credential?: Readonly<Record<string, unknown>>;
  /** Existing tenant to use instead of a new one. */
  readonly tenantId?: string;
}

async function create(api: Operated, path: string, body: unknown): Promise<Readonly<Record<string, string>>> {
  const answer = await api.admin("POST", path, body);
  expect(answer, answer.text).toMatchObject({ status: 201 });
  return answer.body as Record<string, string>;
}

/** Creates a tenant, a role with the scopes, a principal and a credential. */
export async function provision(api: Operated, options: ProvisionOptions = {}): Promise<Provisioned> {
  const { scopes = ["credentials:read"], environment = "production", region = "eu" } = options;
  const tenantId =
    options.tenantId ?? (await create(api, "/tenants", { name: "tenant", region }))["id"] ?? "";
  const role = await create(api, `/tenants/${tenantId}/roles`, { name: randomUUID(), scopes });
  const roleId = role["id"] ?? "";
  const principal = await create(api, `/tenants/${tenantId}/principals`, {
    name: randomUUID(),
    role_id: roleId,
    region,
    environment,
  });
  const principalId = principal["id"] ?? "";
  const credential = await create(
    api,
    `/principals/${principalId}/credentials`,
    options.credential ?? api.credential ?? {},
  );
  return {
    tenantId,
    roleId,
    principalId,
    credentialId: credential["id"] ?? "",
    clientId: credential["client_id"] ?? "",
    clientSecret: credential["client_secret"] ?? "",
  };
}

/** Returns the token request of a provisioned client. */
export function grant(
  client: Provisioned,
  more: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  return {
    grant_type: "client_credentials",
    client_id: client.clientId,
    client_secret: client.clientSecret,
    ...more,
  };
}

/** Requests an access token for a provisioned client. */
export async function accessToken(
  api: Pick<ServiceUnderTest, "token">,
  client: Provisioned,
  scope?: string,
): Promise<string> {
  const answer = await api.token(grant(client, scope === undefined ? {} : { scope }));
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body["access_token"]);
}

/** Returns the headers of a tenant's request. */
export function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

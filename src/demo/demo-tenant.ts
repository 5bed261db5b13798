/** The demo's tenant, provisioned over the operators' API like any other and remembered between starts. */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AdminCall, Resource } from "../cli/admin-client.ts";

/** Everything that a tenant of the demo may try out. */
const SCOPES = [
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:read",
  "credentials:read",
  "inference:read",
];

export interface DemoTenant {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

function text(resource: Resource, member: string): string {
  const value = resource[member];
  if (typeof value !== "string") {
    throw new TypeError(`the operators' API gave no ${member}`);
  }
  return value;
}

async function provision(admin: AdminCall): Promise<DemoTenant> {
  const tenant = await admin("POST", "/tenants", { name: "Demo", region: "eu" });
  const tenantId = text(tenant, "id");
  const role = await admin("POST", `/tenants/${tenantId}/roles`, { name: "everything", scopes: SCOPES });
  const principal = await admin("POST", `/tenants/${tenantId}/principals`, {
    name: "demo-service",
    role_id: text(role, "id"),
    region: "eu",
    environment: "development",
  });
  const credential = await admin("POST", `/principals/${text(principal, "id")}/credentials`, {});
  return {
    tenantId,
    clientId: text(credential, "client_id"),
    clientSecret: text(credential, "client_secret"),
  };
}

/** The demo's tenant: the one of an earlier start, whose secret lies beside the other development keys, or a new one. */
export async function demoTenant(
  home: string,
  admin: AdminCall,
): Promise<{ tenant: DemoTenant; known: boolean }> {
  const path = join(home, "demo.json");
  try {
    const tenant = JSON.parse(await readFile(path, "utf8")) as DemoTenant;
    await admin("GET", `/tenants/${tenant.tenantId}`);
    return { tenant, known: true };
  } catch {
    // Not there, or of a database that is gone.
  }
  const tenant = await provision(admin);
  await mkdir(home, { recursive: true });
  // A secret that is half written is lost: written beside, then put in place.
  await writeFile(`${path}.new`, `${JSON.stringify(tenant, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${path}.new`, path);
  return { tenant, known: false };
}

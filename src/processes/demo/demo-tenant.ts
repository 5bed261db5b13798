/** The demo's tenant, provisioned over the operators' API like any other and kept between starts. */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { AdminCall, Resource } from "#cli/admin-client.ts";

/** Scopes of the demo's tenant. */
const SCOPES = [
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:read",
  "credentials:read",
  "compliance:read",
  "portal:sign_in",
  "inference:read",
];

/** The file in `.signet/` with its credential: a complete token request, for `curl -d @.signet/demo.json`. */
const FILE = "demo.json";

export interface DemoTenant {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** {@link FILE} */
  readonly file: string;
}

function text(resource: Resource, member: string): string {
  const value = resource[member];
  if (typeof value !== "string") {
    throw new TypeError(`there is no ${member}`);
  }
  return value;
}

async function provision(admin: AdminCall, sanUri: string | undefined): Promise<Omit<DemoTenant, "file">> {
  const tenant = await admin("POST", "/tenants", { name: "Demo", region: "eu" });
  const tenantId = text(tenant, "id");
  const role = await admin("POST", `/tenants/${tenantId}/roles`, { name: "everything", scopes: SCOPES });
  const principal = await admin("POST", `/tenants/${tenantId}/principals`, {
    name: "demo-service",
    role_id: text(role, "id"),
    region: "eu",
    environment: "development",
  });
  // Clients with a certificate must use this one.
  const binding = sanUri === undefined ? {} : { san_uri: sanUri };
  const credential = await admin("POST", `/principals/${text(principal, "id")}/credentials`, binding);
  return {
    tenantId,
    clientId: text(credential, "client_id"),
    clientSecret: text(credential, "client_secret"),
  };
}

async function read(path: string): Promise<Omit<DemoTenant, "file">> {
  const stored = JSON.parse(await readFile(path, "utf8")) as Resource;
  return {
    tenantId: text(stored, "tenant_id"),
    clientId: text(stored, "client_id"),
    clientSecret: text(stored, "client_secret"),
  };
}

async function write(path: string, tenant: Omit<DemoTenant, "file">): Promise<void> {
  const stored = {
    tenant_id: tenant.tenantId,
    client_id: tenant.clientId,
    client_secret: tenant.clientSecret,
    grant_type: "client_credentials",
  };
  await mkdir(dirname(path), { recursive: true });
  // A half-written secret would be lost: write a temporary file, then rename it.
  await writeFile(`${path}.new`, `${JSON.stringify(stored, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${path}.new`, path);
}

/** Returns the demo's tenant: that of an earlier start, whose secret is beside the other development keys, or a new one. */
export async function demoTenant(
  home: string,
  admin: AdminCall,
  sanUri: string | undefined,
): Promise<{ tenant: DemoTenant; known: boolean }> {
  const file = join(home, FILE);
  try {
    const tenant = await read(file);
    await admin("GET", `/tenants/${tenant.tenantId}`);
    return { tenant: { ...tenant, file }, known: true };
  } catch {
    // Missing, or of a database that no longer exists.
  }
  const tenant = await provision(admin, sanUri);
  await write(file, tenant);
  return { tenant: { ...tenant, file }, known: false };
}

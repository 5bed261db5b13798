/** The demo's last step: the edge accepts a token within its scopes and rejects it outside them. */
import { readFile } from "node:fs/promises";
import { readText } from "#lib/bounded-body.ts";
import type { Fetch } from "#lib/client/runtime.ts";
import { createTlsFetch } from "#lib/client/tls-fetch.ts";
import type { Clock } from "#domain/clock.ts";
import type { DemoTenant } from "./demo-tenant.ts";
import { type Patience, patientFetch } from "./patient-fetch.ts";

/** How the demo's tenant reaches the mutual TLS listener. */
export interface MutualTlsAccess {
  readonly baseUrl: string;
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** How the demo reaches the edge. */
export interface EdgeAccess {
  readonly baseUrl: string;
  /** Absent if the edge does not speak TLS. */
  readonly mutualTls?: MutualTlsAccess | undefined;
}

interface EdgeDemo {
  readonly clock: Clock;
  readonly fetch: Fetch;
  readonly patience: Patience;
  readonly detail: (line: string) => void;
}

async function fetchFor({ mutualTls }: EdgeAccess, { clock, fetch, patience }: EdgeDemo): Promise<Fetch> {
  if (mutualTls === undefined) {
    return fetch;
  }
  const [ca, cert, key] = await Promise.all(
    [mutualTls.caFile, mutualTls.certFile, mutualTls.keyFile].map(async (path) => await readFile(path)),
  );
  const material = { ca, cert, key } as { ca: Buffer; cert: Buffer; key: Buffer };
  return patientFetch(createTlsFetch(material, clock), patience);
}

/**
 * Sends two requests to the edge.
 *
 * @returns its answers, for people
 * @throws Error if the edge's decision does not match the scopes
 */
export async function tryEdge(access: EdgeAccess, tenant: DemoTenant, demo: EdgeDemo): Promise<string> {
  const { detail } = demo;
  const ask = await fetchFor(access, demo);
  const request = await readFile(tenant.file, "utf8");
  const json = { "content-type": "application/json" };
  const granted = await ask(`${access.baseUrl}/v1/auth/token`, {
    method: "POST",
    headers: json,
    body: request,
  });
  const { access_token: token } = JSON.parse(await readText(granted)) as { access_token?: string };
  const headers = { authorization: `Bearer ${token}` };
  const allowed = await ask(`${access.baseUrl}/v1/inference/signet-1`, { headers });
  await readText(allowed);
  detail(`GET /v1/inference/signet-1: ${allowed.status}, answered by the sample data plane`);
  const refused = await ask(`${access.baseUrl}/v1/pipelines`, {
    method: "POST",
    headers: { ...headers, ...json },
    body: "{}",
  });
  const problem = JSON.parse(await readText(refused)) as Readonly<Record<string, unknown>>;
  detail(
    `POST /v1/pipelines: ${refused.status} ${String(problem["code"])}, missing permission ${String(problem["missing_permission"])}`,
  );
  if (allowed.status !== 200 || problem["code"] !== "SCOPE_VIOLATION") {
    throw new Error("the edge's decisions do not match the token's scopes");
  }
  return `${allowed.status} within the token's scopes, ${refused.status} ${problem["code"]} outside`;
}

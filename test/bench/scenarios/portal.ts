/** The portal's pages with 1,000,000 deliveries in the database, as one person's browser asks for them. */
import { withClient } from "../environment/postgres.ts";
import { accessToken, requestJson } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import { monotonicMs } from "../load/monotonic.ts";
import { type Percentiles, percentiles } from "../measure/statistics.ts";
import type { Bench, Scenario } from "./bench.ts";
import { fillHistory } from "./history.ts";

const DELIVERIES = 1_000_000;
const ASKED = 200;
const WARM_UP = 20;

/** Pages by the name of their figure; `:endpoint` stands for one of the tenant's. */
const PAGES = {
  home: "/portal",
  endpoints: "/portal/endpoints",
  endpoint: "/portal/endpoints/:endpoint",
} as const;

interface Visitor {
  readonly apiUrl: string;
  readonly cookie: string;
  readonly endpointId: string;
}

async function signIn(world: World): Promise<Visitor> {
  const { tenants } = await world.group({
    name: "portal",
    tenants: 1,
    endpointsPerTenant: 10,
    fanOut: "one",
  });
  const [tenant] = tenants;
  if (tenant === undefined) {
    throw new Error("a group without tenants");
  }
  const { apiUrl } = world.signet;
  const token = await accessToken(world.signet, tenant);
  const { url } = await requestJson("POST", `${apiUrl}/v1/portal/links`, token, {});
  const opened = await fetch(`${apiUrl}/portal/sign-in`, {
    method: "POST",
    redirect: "manual",
    headers: { "sec-fetch-site": "same-origin" },
    body: new URLSearchParams({ link: new URL(String(url)).searchParams.get("link") ?? "" }),
  });
  const [cookie = ""] = (opened.headers.get("set-cookie") ?? "").split(";");
  const endpointId = await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ id: string }>("SELECT id FROM endpoints WHERE tenant_id = $1", [
      tenant.id,
    ]);
    return rows[0]?.id ?? "";
  });
  return { apiUrl, cookie, endpointId };
}

/** Milliseconds from the request to the end of the page. */
async function times({ apiUrl, cookie, endpointId }: Visitor, page: string): Promise<Percentiles> {
  const taken: number[] = [];
  for (let call = 0; call < ASKED + WARM_UP; call += 1) {
    const begun = monotonicMs();
    const answer = await fetch(apiUrl + page.replace(":endpoint", endpointId), { headers: { cookie } });
    await answer.text();
    if (answer.status !== 200) {
      throw new Error(`${page} answered ${answer.status}`);
    }
    taken.push(monotonicMs() - begun);
  }
  return percentiles(taken.slice(WARM_UP));
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "portal");
  const visitor = await signIn(world);
  const deliveries = bench.events(DELIVERIES);
  bench.log(`inserting ${deliveries} finished deliveries`);
  await fillHistory(world.adminDatabaseUrl, deliveries);
  const pages: Record<string, Percentiles> = {};
  for (const [name, page] of Object.entries(PAGES)) {
    pages[`${name}_ms`] = await times(visitor, page);
  }
  bench.findings["portal"] = { deliveries, asked: ASKED, ...pages };
  bench.log(JSON.stringify(bench.findings["portal"], undefined, 2));
  await world.stop();
}

export const portal: Scenario = {
  name: "portal",
  about: "the portal's pages with 1,000,000 deliveries in the database, asked for one after the other",
  run: runScenario,
};

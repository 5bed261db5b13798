/** What operators read of a deployment with 10,000 tenants and 100,000 endpoints, requested like one person's browser. */
import { seedDeployment } from "#test/support/seeded-deployment.ts";
import { withClient } from "../environment/postgres.ts";
import { requestJson, signIn } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import type { Percentiles } from "../measure/statistics.ts";
import type { Bench, Scenario } from "./bench.ts";
import { type Asked, timePage } from "./portal.ts";

const ASKED = 40;
/** One reading of the overview serves everybody for a second, so each request comes after the last one's end. */
const PAUSE_MS = 1_100;

interface Operator {
  readonly token: string;
  readonly cookie: string;
}

async function createOperator(world: World, origin: string): Promise<Operator> {
  const create = async (path: string, body: object) =>
    await requestJson("POST", world.signet.adminUrl + path, world.operatorToken, { ...body });
  const operator = await create("/operators", { name: "bench", role: "security" });
  const token = String((await create(`/operators/${String(operator["id"])}/tokens`, {}))["token"]);
  return { token, cookie: await signIn(`${origin}/portal/operator/sign-in`, { token }) };
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "overview");
  const { adminUrl, worker } = world.signet;
  const { origin } = new URL(adminUrl);
  const { token, cookie } = await createOperator(world, origin);
  // The waiting deliveries remain as they are.
  await worker.stop();
  await withClient(world.adminDatabaseUrl, async (client) => {
    await seedDeployment(async (text) => await client.query(text));
  });
  const bearer = { authorization: `Bearer ${token}` };
  const pages: Readonly<Record<string, Asked>> = {
    api: { url: `${adminUrl}/overview`, headers: bearer, times: ASKED, pauseMs: PAUSE_MS },
    console: { url: `${origin}/portal/operator`, headers: { cookie }, times: ASKED, pauseMs: PAUSE_MS },
    tenants: { url: `${origin}/portal/operator/tenants`, headers: { cookie }, times: ASKED },
    find: { url: `${adminUrl}/find?q=receiver-99999`, headers: bearer, times: ASKED },
  };
  const found: Record<string, Percentiles> = {};
  for (const [name, page] of Object.entries(pages)) {
    found[`${name}_ms`] = await timePage(page);
    bench.log(`${name}: ${JSON.stringify(found[`${name}_ms`])}`);
  }
  bench.findings["overview"] = { tenants: 10_000, endpoints: 100_000, asked: ASKED, ...found };
  await world.stop();
}

export const overview: Scenario = {
  name: "overview",
  about: "operators' overview, list of tenants and search with 10,000 tenants and 100,000 endpoints",
  run: runScenario,
};

/** Seeded requests race over two apis for the same deliveries, endpoints and jobs. */
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Client, Connection } from "@temporalio/client";
import { accessToken } from "#test/bench/environment/provision.ts";
import type { TenantGroup, World } from "#test/bench/environment/world.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger, type Fate } from "../ledger.ts";
import { miscounted } from "../observe.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { Trial } from "../trial.ts";
import {
  ask,
  type Answered,
  countOf,
  endpointIds,
  type Method,
  must,
  rowsOf,
  until,
} from "./tenant-requests.ts";

const SEED = 20_261_128;
const EVENTS = { full: 2_000, quick: 400 } as const;
const SECONDS = { full: 60, quick: 20 } as const;
/** Requests on one subject at once, and how many of those groups run in parallel. */
const AT_ONCE = 3;
const GROUPS = 6;
const SHAPE = { name: "raced", tenants: 2, endpointsPerTenant: 8, fanOut: "one" } as const;
/** Of each tenant's endpoints, the numbers of those that are deleted at some time. */
const DELETED = [1, 4, 7];
/** Few deliveries are raced for, so that requests meet. */
const HOT = 40;
const QUIET_MS = 150_000;
const PUBLISH = { kind: "closed", connections: 32, batch: 1 } as const;

type Responses = Readonly<Record<string, Readonly<Record<string, { readonly responses: object }>>>>;

interface Subject {
  readonly token: string;
  readonly endpoints: readonly string[];
  readonly deliveries: readonly string[];
  readonly jobs: string[];
}

interface Chosen {
  readonly method: Method;
  /** As the OpenAPI document has it. */
  readonly template: string;
  readonly id?: string;
  readonly body?: unknown;
}

/** The requests and their answers. */
class Race {
  readonly #random = seededRandom(SEED);
  readonly #bases: readonly string[];
  readonly #documented: Responses;
  /** Number of answers by request and status. */
  readonly answers: Record<string, Record<string, number>> = {};
  /** Number of single replays and resends that were accepted, by delivery. */
  readonly accepted = new Map<string, number>();
  undocumented = 0;

  constructor(bases: readonly string[], documented: Responses) {
    this.#bases = bases;
    this.#documented = documented;
  }

  pick<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.#random() * all.length)];
  }

  /** Chooses requests on one subject, which are sent at once. */
  choose({ endpoints, deliveries, jobs }: Subject): Chosen[] {
    const id = this.pick(deliveries.slice(0, HOT)) ?? "";
    const endpoint_id = this.pick(endpoints) ?? "";
    const deleted = this.pick(DELETED.map((number) => endpoints[number] ?? "")) ?? "";
    const job = this.pick(jobs.slice(-4));
    const one = (name: string): Chosen => ({ method: "POST", template: `/v1/webhooks/${name}`, id });
    const ofEndpoint = (act: string): Chosen => ({
      method: "POST",
      template: `/v1/webhooks/endpoints/{id}/${act}`,
      id: endpoint_id,
    });
    const singles = [
      "dlq/{id}/replay",
      "deliveries/{id}/resend",
      "deliveries/{id}/cancel",
      "deliveries/{id}/retry",
    ];
    const acts = ["pause", "resume", "cancel"];
    const states = ["DEAD_LETTERED", "DELIVERED", "CANCELLED"];
    const roll = this.#random();
    if (roll < 0.02) {
      return [
        { method: "DELETE", template: "/v1/webhooks/endpoints/{id}", id: deleted },
        { method: "DELETE", template: "/v1/webhooks/endpoints/{id}", id: deleted },
        one("dlq/{id}/replay"),
      ];
    }
    if (roll < 0.1) {
      return [ofEndpoint("disable"), ofEndpoint("enable"), one("deliveries/{id}/resend")];
    }
    if (roll < 0.16) {
      const body = { states, filter: { endpoint_id }, rate_per_second: 50 };
      return [{ method: "POST", template: "/v1/webhooks/replays", body }, one("deliveries/{id}/cancel")];
    }
    if (roll < 0.2) {
      const body = { ids: deliveries.slice(0, HOT) };
      return [{ method: "POST", template: "/v1/webhooks/dlq/replay", body }, one("dlq/{id}/replay")];
    }
    if (roll < 0.28 && job !== undefined) {
      return acts.map((act) => ({ method: "POST", template: `/v1/webhooks/replays/{id}/${act}`, id: job }));
    }
    return Array.from({ length: AT_ONCE }, () => one(this.pick(singles) ?? ""));
  }

  async send(subject: Subject, chosen: Chosen, number: number): Promise<void> {
    const { method, template, id, body } = chosen;
    const base = this.#bases[number % this.#bases.length] ?? "";
    const path = template.replace("{id}", id ?? "");
    const answer = await ask({ base, token: subject.token, method, path, body });
    this.#note(subject, chosen, answer);
  }

  #isDocumented(method: Method, template: string, status: number): boolean {
    const documented = this.#documented[template]?.[method.toLowerCase()]?.responses ?? {};
    return status < 500 && String(status) in documented;
  }

  #note({ jobs }: Subject, { method, template, id = "" }: Chosen, { status, body }: Answered): void {
    const name = `${method} ${template}`;
    const counts = (this.answers[name] ??= {});
    counts[status] = (counts[status] ?? 0) + 1;
    this.undocumented += this.#isDocumented(method, template, status) ? 0 : 1;
    if (status === 202 && (template.endsWith("}/replay") || template.endsWith("}/resend"))) {
      this.accepted.set(id, (this.accepted.get(id) ?? 0) + 1);
    }
    if (status === 202 && typeof body["total"] === "number") {
      jobs.push(String(body["id"]));
    }
  }
}

/** Lets the groups of requests race for a while. */
async function race(running: Race, subjects: readonly Subject[], seconds: number): Promise<void> {
  const endMs = performance.now() + seconds * 1_000;
  const group = async (): Promise<void> => {
    while (performance.now() < endMs) {
      const subject = running.pick(subjects);
      if (subject !== undefined) {
        const chosen = running.choose(subject);
        await Promise.all(chosen.map(async (each, number) => await running.send(subject, each, number)));
      }
    }
  };
  await Promise.all(Array.from({ length: GROUPS }, group));
}

async function subjectsOf(world: World, group: TenantGroup): Promise<Subject[]> {
  return await Promise.all(
    group.tenants.map(async (tenant) => {
      const token = await accessToken(world.signet, tenant);
      const rows = await rowsOf<{ id: string }>(
        world,
        "SELECT id FROM deliveries WHERE tenant_id = $1 ORDER BY hashtext(id)",
        [tenant.id],
      );
      const endpoints = await endpointIds(world.signet.apiUrl, token);
      return { token, endpoints, deliveries: rows.map(({ id }) => id), jobs: [] };
    }),
  );
}

const OPEN = "SELECT count(*)::int AS n FROM deliveries WHERE state IN ('QUEUED', 'RETRYING')";
const RUNNING = "SELECT count(*)::int AS n FROM replay_jobs WHERE state IN ('RUNNING', 'PAUSED')";

/** Ends the jobs that are left, and waits until nothing is open. */
async function untilQuiet({ world }: SetScene, subjects: readonly Subject[]): Promise<void> {
  const base = world.signet.apiUrl;
  for (const { token, jobs } of subjects) {
    for (const job of jobs) {
      await must({ base, token, method: "POST", path: `/v1/webhooks/replays/${job}/cancel` }).catch(
        // It has ended.
        () => undefined,
      );
    }
  }
  await until(
    async () => (await countOf(world, OPEN)) + (await countOf(world, RUNNING)) === 0,
    "open deliveries and jobs to end",
    QUIET_MS,
  );
}

/** Number of open workflows of deliveries that hold no dead letter. */
async function idleWorkflows({ temporalAddress, namespace }: World): Promise<number> {
  const connection = await Connection.connect({ address: temporalAddress });
  try {
    const client = new Client({ connection, namespace });
    const open = 'WorkflowType = "deliver" AND CloseTime IS NULL';
    const all = await client.workflow.count(open);
    const letters = await client.workflow.count(`${open} AND SignetDead > 0`);
    return all.count - letters.count;
  } finally {
    await connection.close();
  }
}

/** Cycles of each delivery, and the items of jobs that began one. */
const CYCLES = `SELECT d.id, d.cycle, (SELECT count(*)::int FROM replay_items i
    WHERE i.delivery_id = d.id AND i.result = 'replayed') AS items
  FROM deliveries d WHERE d.event_type LIKE 'bench.%'`;
/** Attempts on record by endpoint. */
const RECORDED = `SELECT e.url, (count(*) FILTER (WHERE d.first_duration_ms IS NOT NULL)
    + coalesce(sum((SELECT count(*) FROM attempts a WHERE a.day = d.day AND a.delivery_id = d.id
      AND a.duration_ms IS NOT NULL)), 0))::int AS n
  FROM endpoints e JOIN deliveries d ON d.endpoint_id = e.id GROUP BY 1`;
/** Cycles with gaps between their attempts, more attempts than allowed, or several successes. */
const ODD_CYCLES = `SELECT count(*)::int AS n FROM (SELECT FROM attempts GROUP BY day, delivery_id, cycle
  HAVING count(*) > 17 OR max(attempt) > 17 OR count(*) FILTER (WHERE status BETWEEN 200 AND 299) > 1) odd`;
const OF_DELETED = `SELECT count(*)::int AS n FROM deliveries d JOIN endpoints e ON e.id = d.endpoint_id
  WHERE e.deleted_at IS NOT NULL AND d.state IN ('QUEUED', 'RETRYING')`;

/** Number of requests that arrived and are not on record, or the reverse, over all endpoints. */
async function disagreeing(world: World, group: TenantGroup, fates: readonly Fate[]): Promise<number> {
  const recorded = new Map(
    (await rowsOf<{ url: string; n: number }>(world, RECORDED)).map(({ url, n }) => [url, n]),
  );
  return group.endpoints.reduce((sum, { url, number }) => {
    const arrived = fates
      .filter(({ endpoint }) => endpoint === number)
      .reduce((requests, { requestsMs }) => requests + requestsMs.length, 0);
    return sum + Math.abs(arrived - (recorded.get(url) ?? 0));
  }, 0);
}

async function wrongCycles(world: World, accepted: ReadonlyMap<string, number>): Promise<number> {
  const rows = await rowsOf<{ id: string; cycle: number; items: number }>(world, CYCLES);
  return rows.filter(({ id, cycle, items }) => cycle - 1 !== (accepted.get(id) ?? 0) + items).length;
}

async function races(scene: SetScene): Promise<CaseOutcome> {
  const { world, load, quick } = scene;
  const events = quick ? EVENTS.quick : EVENTS.full;
  const group = await world.group(SHAPE);
  for (const [index, endpoint] of group.endpoints.entries()) {
    const kinds = [
      { kind: "delay", ms: 20 },
      { kind: "fail", attempts: 3 },
      { kind: "fail", attempts: 1_000 },
    ] as const;
    await load.behave([endpoint], kinds[index % kinds.length] ?? { kind: "ok" });
  }
  const text = await readFile(new URL("../../../docs/openapi.json", import.meta.url), "utf8");
  const { paths } = JSON.parse(text) as { readonly paths: Responses };
  const trial = await Trial.begin(scene, events);
  try {
    await trial.publish([{ from: 0, count: events, group, pace: PUBLISH }]);
    const subjects = await subjectsOf(world, group);
    const running = new Race(
      world.signet.apis.map(({ url }) => url),
      paths,
    );
    await race(running, subjects, quick ? SECONDS.quick : SECONDS.full);
    await untilQuiet(scene, subjects);
    const idle = { left: Number.NaN };
    await until(
      async () => (idle.left = await idleWorkflows(world)) === 0,
      "workflows to end",
      QUIET_MS,
    ).catch(() => undefined);
    // A worker writes its counts within seconds.
    for (let round = 0; (await miscounted(world)) > 0 && round < 20; round += 1) {
      await delay(500);
    }
    const fates = await trial.fates();
    const stored = await countOf(
      world,
      "SELECT count(*)::int AS n FROM deliveries WHERE event_type LIKE 'bench.%'",
    );
    const odd = await countOf(world, ODD_CYCLES);
    const counted = countLedger(fates);
    const requests = Object.values(running.answers).flatMap((each) => Object.values(each));
    return {
      // Cancelled deliveries never arrive. Lost is an event without its delivery, twice a cycle with two successes.
      ledger: { ...counted, lost: counted.accepted - stored, duplicated: odd },
      findings: {
        seed: SEED,
        requests: requests.reduce((sum, each) => sum + each, 0),
        answers: running.answers,
        accepted_cycles: [...running.accepted.values()].reduce((sum, each) => sum + each, 0),
        jobs: subjects.reduce((sum, { jobs }) => sum + jobs.length, 0),
      },
      targets: [
        atMost("events never accepted", events - counted.accepted, 0),
        atMost("events without their delivery", Math.abs(counted.accepted - stored), 0),
        atMost("answers that are neither 2xx nor a documented 4xx", running.undocumented, 0),
        atMost(
          "deliveries with more or fewer cycles than were granted",
          await wrongCycles(world, running.accepted),
          0,
        ),
        atMost("requests that differ from the attempts on record", await disagreeing(world, group, fates), 0),
        atMost("cycles with too many attempts or successes", odd, 0),
        atMost("open deliveries of deleted endpoints", await countOf(world, OF_DELETED), 0),
        atMost("open workflows without dead letters", idle.left, 0),
        atMost("counts that disagree with the rows", await miscounted(world), 0),
      ],
    };
  } finally {
    await trial.end();
  }
}

export const RACES: ChaosCase = {
  name: "races",
  about: "seeded replays, resends, cancellations and deletions at once over two apis",
  setting: { shape: { apis: 2, workers: 2 }, settings: { SIGNET_RETRY_WINDOW_MS: "5000" } },
  run: races,
};

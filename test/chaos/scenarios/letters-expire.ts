/** Dead letters expire while other events flow. */
import { Client, Connection } from "@temporalio/client";
import { accessToken } from "#test/bench/environment/provision.ts";
import type { TenantGroup, World } from "#test/bench/environment/world.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger, type Fate } from "../ledger.ts";
import { miscounted } from "../observe.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers } from "../run-case.ts";
import { healthyGroup, type Part, repeatedAnswers } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { ask, countOf, endpointIds, must, rowsOf, switchEndpoints, until } from "./tenant-requests.ts";

/** Setting of the case: how long dead letters are kept. */
const KEPT_MS = 15_000;
const LETTERS = { full: 3_000, quick: 400 } as const;
const LETTERS_PER_SECOND = 100;
const HEALTHY_PER_SECOND = 30;
const SECONDS = { full: 90, quick: 40 } as const;
/** Letters that are replayed before they expire, one by one. Their endpoint is still disabled, so they expire later. */
const REPLAYED = 10;
const P99_MS = 5_000;
/** The queue is right within two minutes (docs/guarantees.md). */
const GONE_MS = 120_000;
const DRAIN = { idleMs: 60_000, maxMs: 180_000 };

async function openLetters({ temporalAddress, namespace }: World): Promise<number> {
  const connection = await Connection.connect({ address: temporalAddress });
  try {
    const client = new Client({ connection, namespace });
    return (await client.workflow.count("SignetDead > 0 AND CloseTime IS NULL")).count;
  } finally {
    await connection.close();
  }
}

interface Doomed {
  readonly base: string;
  readonly token: string;
  readonly tenant: string;
}

/** Creates a tenant whose endpoint is disabled. */
async function doomedGroup({ world }: SetScene): Promise<{ group: TenantGroup; doomed: Doomed }> {
  const shape = { name: "doomed", tenants: 1, endpointsPerTenant: 1, fanOut: "one" } as const;
  const group = await world.group(shape);
  const [tenant] = group.tenants;
  if (tenant === undefined) {
    throw new Error("the tenant was not created");
  }
  const base = world.signet.apiUrl;
  const token = await accessToken(world.signet, tenant);
  await switchEndpoints(base, token, await endpointIds(base, token), "disable");
  return { group, doomed: { base, token, tenant: tenant.id } };
}

/** Replays some letters, each of which gets another life. Returns the number of accepted requests. */
async function replaySome({ base, token }: Doomed): Promise<number> {
  const page = await must({ base, token, method: "GET", path: `/v1/webhooks/dlq?limit=${REPLAYED}` });
  let accepted = 0;
  for (const { id } of page["data"] as readonly { id: string }[]) {
    const path = `/v1/webhooks/dlq/${id}/replay`;
    const { status } = await ask({ base, token, method: "POST", path });
    accepted += status === 202 ? 1 : 0;
  }
  return accepted;
}

/** What still shows letters that have expired. */
async function leftOvers(world: World, { base, token, tenant }: Doomed) {
  const list = await must({ base, token, method: "GET", path: "/v1/webhooks/dlq" });
  const groups = await must({ base, token, method: "GET", path: "/v1/webhooks/dlq/groups" });
  const ids = await rowsOf<{ id: string }>(
    world,
    "SELECT id FROM deliveries WHERE tenant_id = $1 ORDER BY id LIMIT 50",
    [tenant],
  );
  const answers = await Promise.all(
    ids.map(async ({ id }) => await ask({ base, token, method: "GET", path: `/v1/webhooks/dlq/${id}` })),
  );
  return {
    listed: (list["data"] as readonly unknown[]).length,
    grouped: (groups["data"] as readonly unknown[]).length,
    notGone: answers.filter(({ status }) => status !== 410).length,
    logged: await countOf(
      world,
      "SELECT count(*)::int AS n FROM clog WHERE tenant_id = $1 AND type = 'dlq.replayed'",
      [tenant],
    ),
  };
}

/** Letters come and go for several of their lives, beside healthy endpoints. */
async function lettersExpire(scene: SetScene): Promise<CaseOutcome> {
  const { world, load, quick } = scene;
  const healthy = await healthyGroup(scene);
  const { group, doomed } = await doomedGroup(scene);
  const flowing = HEALTHY_PER_SECOND * (quick ? SECONDS.quick : SECONDS.full);
  const letters = quick ? LETTERS.quick : LETTERS.full;
  const steady = (perSecond: number): Part["pace"] => ({ kind: "open", perSecond });
  const trial = await Trial.begin(scene, flowing + letters);
  try {
    const publishing = trial.publish([
      { from: 0, count: flowing, group: healthy, pace: steady(HEALTHY_PER_SECOND) },
      { from: flowing, count: letters, group, pace: steady(LETTERS_PER_SECOND) },
    ]);
    const state = (name: string): Promise<number> =>
      countOf(world, "SELECT count(*)::int AS n FROM deliveries WHERE tenant_id = $1 AND state = $2", [
        doomed.tenant,
        name,
      ]);
    await until(async () => (await state("DEAD_LETTERED")) >= REPLAYED, "dead letters", GONE_MS);
    const replayed = await replaySome(doomed);
    let mostOpen = 0;
    const began = performance.now();
    await until(
      async () => {
        mostOpen = Math.max(mostOpen, await openLetters(world));
        return (await state("EXPIRED")) === letters;
      },
      "the letters to expire",
      GONE_MS + KEPT_MS * 4,
    );
    const expiredS = Math.round((performance.now() - began) / 1_000);
    const published = await publishing;
    await load.drain(({ ok }) => ok >= flowing, DRAIN);
    await until(async () => (await openLetters(world)) === 0, "Temporal to have none", GONE_MS);
    const all = await trial.fates();
    const ledger = countLedger(all.filter(({ index }) => index < flowing));
    const doomedFates: readonly Fate[] = all.filter(({ index }) => index >= flowing);
    const left = await leftOvers(world, doomed);
    return {
      ledger,
      findings: {
        letters,
        sent_again: repeatedAnswers(published),
        open_letters_at_most: mostOpen,
        all_expired_after_s: expiredS,
        replayed,
        left,
      },
      targets: [
        atMost(
          "events never accepted",
          flowing + letters - countLedger(doomedFates).accepted - ledger.accepted,
          0,
        ),
        atMost("lost beside the letters", ledger.lost, 0),
        atMost("acknowledged twice", ledger.duplicated, 0),
        atMost("publish to arrival beside the letters, p99 ms", ledger.p99_ms, P99_MS),
        atMost("requests of letters", countLedger(doomedFates).requests, 0),
        atMost("letters in the list", left.listed, 0),
        atMost("letters in the groups", left.grouped, 0),
        atMost("letters that are not 410", left.notGone, 0),
        atMost("entries in the log that do not fit the replays", Math.abs(left.logged - replayed), 0),
        atMost("counts that disagree with the rows", await miscounted(world), 0),
        fatalAnswers(repeatedAnswers(published)),
      ],
    };
  } finally {
    await trial.end();
  }
}

export const LETTERS_EXPIRE: ChaosCase = {
  name: "letters-expire",
  about: "dead letters that are kept for 15 s expire beside 30 events a second",
  setting: { settings: { SIGNET_DEAD_LETTER_MS: String(KEPT_MS) } },
  run: lettersExpire,
};

/** Security events (SSF): how soon a receiver has one after a revocation, and whether any is lost when processes die. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { SsfReceiver } from "#lib/receiver/index.ts";
import { withClient } from "../environment/postgres.ts";
import { accessToken, provisionTenant, requestJson, type Tenant } from "../environment/provision.ts";
import type { Restartable } from "../environment/restartable.ts";
import type { World } from "../environment/world.ts";
import { percentiles } from "../measure/statistics.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const PUSH = "urn:ietf:rfc:8935";
const SESSION_REVOKED = "https://schemas.openid.net/secevent/caep/event-type/session-revoked";
/** One client requests and revokes all tokens. */
const UNLIMITED = { SIGNET_TOKEN_RATE_PER_CLIENT: "0", SIGNET_TOKEN_RATE_PER_ADDRESS: "0" };
const REVOCATIONS = 1_000;
const WARM_UP = 20;
/** Emergencies come one at a time. */
const PAUSE_MS = 25;
/** Revokers at once while processes are killed, and how long the receiver takes, so that each kill meets tokens. */
const REVOKERS = 8;
const SLOW_ANSWER_MS = 100;
const ROUNDS = 3;
/** Before a kill and from a restart to the next kill, while revocations go on; and how long the victim is away. */
const BETWEEN_MS = 8_000;
const DEAD_MS = 1_000;
/** A worker's death is noticed by timeouts. */
const DRAIN_MS = 240_000;
const POLL_MS = 100;
const AGAIN_MS = 200;

/** A receiver that verifies each token, and notes when it came. */
class Receiver {
  readonly #server: Server;
  /** The verification event may come before the stream's id is known. */
  readonly #known = Promise.withResolvers<SsfReceiver>();
  /** Unix milliseconds of the first arrival, by the `jti` of the access token that was revoked. */
  readonly arrivals = new Map<string, number>();
  /** How long the receiver takes. */
  answersAfterMs = 0;
  /** Accepted tokens that came again. */
  repeated = 0;
  refused = 0;

  constructor() {
    this.#server = createServer((request, response) => {
      buffer(request)
        .then(async (body) => {
          const at = Date.now();
          await delay(this.answersAfterMs);
          if (response.destroyed) {
            // Its sender is dead, and must send it again.
            return;
          }
          const { status, body: answer } = await this.#receive(body, request.headers, at);
          response.writeHead(status, answer === "" ? {} : { "content-type": "application/json" }).end(answer);
        })
        .catch(() => response.destroy());
    });
  }

  async open(): Promise<string> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/events`;
  }

  /** Accepts the tokens of a stream, also its verification. */
  know(issuer: string, audience: string): void {
    this.#known.resolve(new SsfReceiver({ issuer, audience }));
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #receive(body: Buffer, headers: Record<string, string | string[] | undefined>, at: number) {
    const receiver = await this.#known.promise;
    const answer = await receiver.receive(body, headers);
    this.refused += answer.status === 400 ? 1 : 0;
    if (answer.status === 202) {
      const [, claims = ""] = body.toString("latin1").split(".");
      const { sub_id: subject, events } = JSON.parse(Buffer.from(claims, "base64url").toString()) as {
        readonly sub_id: { readonly jti?: string };
        readonly events: Readonly<Record<string, unknown>>;
      };
      const { jti } = subject;
      if (SESSION_REVOKED in events && jti !== undefined) {
        this.repeated += this.arrivals.has(jti) ? 1 : 0;
        this.arrivals.set(jti, this.arrivals.get(jti) ?? at);
      }
    }
    return answer;
  }
}

/** Creates a stream that pushes to the receiver. Resolves after its verification. */
async function openStream({ signet }: World, tenant: Tenant, receiver: Receiver): Promise<void> {
  const url = await receiver.open();
  const token = await accessToken(signet, tenant);
  const stream = await requestJson("POST", `${signet.apiUrl}/v1/ssf/streams`, token, {
    delivery: { method: PUSH, endpoint_url: url },
    events_requested: [SESSION_REVOKED],
  });
  receiver.know(String(stream["iss"]), String(stream["stream_id"]));
  const endpoint = `${signet.apiUrl}/v1/webhooks/endpoints/${String(stream["endpoint_id"])}`;
  while ((await requestJson("GET", endpoint, token))["state"] !== "ACTIVE") {
    await delay(POLL_MS);
  }
}

/** Revokes a token (RFC 7009). Repeats until the answer is 200. @returns its `jti` */
async function revokeOne({ signet }: World, tenant: Tenant): Promise<string> {
  const { clientId, clientSecret } = tenant;
  for (;;) {
    try {
      const token = await accessToken(signet, tenant);
      const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
        jti: string;
      };
      const body = { client_id: clientId, client_secret: clientSecret, token };
      const answer = await fetch(`${signet.apiUrl}/v1/auth/revoke`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      await answer.body?.cancel();
      if (answer.status === 200) {
        return claims.jti;
      }
    } catch {
      // A victim is dead.
    }
    await delay(AGAIN_MS);
  }
}

/** Returns when each access token was revoked, in Unix milliseconds: just before the commit. */
async function committed({ adminDatabaseUrl }: World): Promise<ReadonlyMap<string, number>> {
  return await withClient(adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ target: string; at_ms: number }>(
      "SELECT target, (extract(epoch FROM at) * 1000)::float8 AS at_ms FROM revocations WHERE kind = 'jti'",
    );
    return new Map(rows.map(({ target, at_ms: atMs }) => [target, atMs]));
  });
}

/** Waits until each committed revocation has arrived. @returns those that have not, and when all were committed */
async function drain(world: World, { arrivals }: Receiver) {
  const deadline = performance.now() + DRAIN_MS;
  for (;;) {
    const revoked = await committed(world);
    const missing = [...revoked.keys()].filter((jti) => !arrivals.has(jti));
    if (missing.length === 0 || performance.now() > deadline) {
      return { revoked, lost: missing.length };
    }
    await delay(POLL_MS);
  }
}

function delaysOf(
  jtis: readonly string[],
  { arrivals }: Receiver,
  revoked: ReadonlyMap<string, number>,
): Readonly<Record<string, number>> {
  const delays = jtis.map((jti) => (arrivals.get(jti) ?? Number.NaN) - (revoked.get(jti) ?? Number.NaN));
  const { p50, p95, p99, max } = percentiles(delays.filter((ms) => !Number.isNaN(ms)));
  return { p50: round(p50, 1), p95: round(p95, 1), p99: round(p99, 1), max: round(max, 1) };
}

async function measureDelay(
  world: World,
  { tenant, receiver, count }: { tenant: Tenant; receiver: Receiver; count: number },
) {
  const jtis: string[] = [];
  for (let number = 0; number < WARM_UP + count; number += 1) {
    const jti = await revokeOne(world, tenant);
    if (number >= WARM_UP) {
      jtis.push(jti);
    }
    await delay(PAUSE_MS);
  }
  const { revoked, lost } = await drain(world, receiver);
  return { revocations: count, lost, commit_to_set_ms: delaysOf(jtis, receiver, revoked) };
}

/** What is killed together, in turns. Servers start first. External servers are left alone. */
function victimsOf({ stack }: Bench, { signet }: World): Readonly<Record<string, readonly Restartable[]>> {
  const one = {
    postgres: [stack.postgres.process],
    temporal: [stack.temporal.process],
    api: [signet.api],
    worker: [signet.worker],
  };
  const all = { ...one, everything: Object.values(one).flat() };
  const ours = Object.entries(all).map(([name, victims]) => [
    name,
    victims.filter((victim): victim is Restartable => victim !== undefined),
  ]);
  return Object.fromEntries(ours) as Record<string, Restartable[]>;
}

/** Kills each process in turns with SIGKILL, then all at once, while revocations go on. */
async function measureKills(
  bench: Bench,
  world: World,
  { tenant, receiver, rounds }: { tenant: Tenant; receiver: Receiver; rounds: number },
) {
  const before = await committed(world);
  receiver.answersAfterMs = SLOW_ANSWER_MS;
  const over = new AbortController();
  const jtis: string[] = [];
  const revoke = async (): Promise<void> => {
    while (!over.signal.aborted) {
      jtis.push(await revokeOne(world, tenant));
      await delay(PAUSE_MS);
    }
  };
  const revoking = Promise.all(Array.from({ length: REVOKERS }, revoke));
  /** Tokens whose revocation had been answered and that was not accepted, by what was killed. */
  const atKills: Record<string, number> = {};
  const underWay = (): number => jtis.filter((jti) => !receiver.arrivals.has(jti)).length;
  let kills = 0;
  for (let turn = 0; turn < rounds; turn += 1) {
    for (const [name, victims] of Object.entries(victimsOf(bench, world))) {
      await delay(BETWEEN_MS * (0.5 + Math.random()));
      while (underWay() < REVOKERS / 2) {
        await delay(1);
      }
      await Promise.all(victims.map(async (victim) => await victim.kill()));
      atKills[name] = (atKills[name] ?? 0) + underWay();
      kills += victims.length;
      await delay(DEAD_MS);
      for (const victim of victims) {
        await victim.restart();
      }
    }
  }
  await delay(BETWEEN_MS);
  over.abort();
  await revoking;
  const { revoked, lost } = await drain(world, receiver);
  return {
    kills,
    // Also those whose answer a kill prevented.
    revocations: revoked.size - before.size,
    under_way_at_kills: atKills,
    lost,
    repeated: receiver.repeated,
    commit_to_set_ms: delaysOf(jtis, receiver, revoked),
  };
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world(UNLIMITED, "ssf");
  const receiver = new Receiver();
  try {
    const tenant = await provisionTenant(world.signet, world.operatorToken, "ssf");
    await openStream(world, tenant, receiver);
    const quiet = await measureDelay(world, { tenant, receiver, count: bench.events(REVOCATIONS) });
    bench.log(`one site: ${JSON.stringify(quiet)}`);
    const rounds = bench.quick ? 1 : ROUNDS;
    const killed = await measureKills(bench, world, { tenant, receiver, rounds });
    bench.log(`with kills: ${JSON.stringify(killed)}`);
    bench.findings["ssf"] = { settings: world.settings, quiet, killed, refused: receiver.refused };
  } finally {
    receiver.close();
    await world.stop();
  }
}

export const ssf: Scenario = {
  name: "ssf",
  about:
    "1,000 revocations and their security events at a push receiver: time from commit to arrival; then with api, worker, Temporal and PostgreSQL killed in turns, then all at once: tokens lost",
  timeoutMs: 30 * 60_000,
  run: runScenario,
};

/** Watches whether verifiers admit what is valid, while they are asked with revoked tokens all the time. */
import { setTimeout as delay } from "node:timers/promises";
import { accessToken, type NewTenant, provisionTenant, requestJson } from "../bench/environment/provision.ts";
import { monotonicMs } from "../bench/load/monotonic.ts";
import { type Admissions, admittedLate, askLive, askRevoked, type Verifier } from "./admissions.ts";
import { CHAIN_REGION } from "./cut-chain.ts";
import type { Scene } from "./trial.ts";

/** What must last. */
const LASTING_MS = 2_000;
const GIVE_UP_MS = 20_000;
const POLL_MS = 50;

interface Holder {
  readonly client: NewTenant;
  readonly token: string;
}

async function holder({ world }: Scene, name: string): Promise<Holder> {
  const client = await provisionTenant(world.signet, world.operatorToken, name, CHAIN_REGION);
  return { client, token: await accessToken(world.signet, client) };
}

/** Revokes a credential. @returns when that was answered */
async function revoke({ world }: Scene, { client }: Holder): Promise<number> {
  const url = `${world.signet.adminUrl}/credentials/${client.credentialId}/revoke`;
  await requestJson("POST", url, world.operatorToken, { reason: "compromised" });
  return monotonicMs();
}

/** Polls for something. @throws Error if it takes longer than 20 s */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + GIVE_UP_MS;
  while (!holds()) {
    if (performance.now() > deadline) {
      throw new Error(`timed out before ${what}`);
    }
    await delay(POLL_MS);
  }
}

const isLasting = ({ verdicts }: Admissions): boolean => {
  const last = verdicts.at(-1);
  const refused = verdicts.findLast(({ status }) => status !== 200);
  return last !== undefined && last.sentMs - (refused?.answeredMs ?? verdicts[0]?.sentMs ?? 0) > LASTING_MS;
};

interface Revoked {
  readonly atMs: number;
  readonly asked: readonly Admissions[];
}

/** Requests to every verifier, with a token that stays valid and with three that are revoked. */
export class Watch<Name extends string> {
  readonly live: Readonly<Record<Name, Admissions>>;
  readonly #victims: { readonly holder: Holder; readonly asked: readonly Admissions[] }[];
  readonly #revoked: Revoked[] = [];
  readonly #scene: Scene;

  private constructor(
    scene: Scene,
    verifiers: Readonly<Record<Name, Verifier>>,
    [valid, ...victims]: readonly [Holder, ...Holder[]],
  ) {
    this.#scene = scene;
    const all = Object.entries<Verifier>(verifiers);
    this.live = Object.fromEntries(
      all.map(([name, verifier]) => [name, askLive(verifier, valid.token)]),
    ) as Readonly<Record<Name, Admissions>>;
    this.#victims = victims.map((victim) => ({
      holder: victim,
      asked: all.map(([, verifier]) => askRevoked(verifier, victim.token)),
    }));
  }

  /** Begins, with tenants named after `name`. Resolves when every verifier admits. */
  static async begin<Name extends string>(
    scene: Scene,
    verifiers: Readonly<Record<Name, Verifier>>,
    name: string,
  ): Promise<Watch<Name>> {
    const holders: Holder[] = [];
    for (const part of ["valid", "first", "second", "third"]) {
      holders.push(await holder(scene, `${name}-${part}`));
    }
    const watch = new Watch(scene, verifiers, holders as [Holder, ...Holder[]]);
    await until("every verifier admits", () => watch.#all.every(isLasting));
    return watch;
  }

  get #all(): readonly Admissions[] {
    return [...Object.values<Admissions>(this.live), ...this.#victims.flatMap(({ asked }) => asked)];
  }

  /** Revokes the next one. */
  async revoke(): Promise<void> {
    const victim = this.#victims.shift();
    if (victim !== undefined) {
      this.#revoked.push({ atMs: await revoke(this.#scene, victim.holder), asked: victim.asked });
    }
  }

  /** Waits until every verifier admits what is valid, and refuses what is revoked. */
  async settle(): Promise<void> {
    await until("every verifier admits again", () =>
      Object.values<Admissions>(this.live).every(isLasting),
    ).catch(
      () => undefined, // The seconds tell it.
    );
    await until("every verifier knows the revocations", () =>
      this.#revoked.every(({ asked }) => asked.every(({ verdicts }) => verdicts.at(-1)?.status === 401)),
    );
    await Promise.all(
      [...Object.values<Admissions>(this.live), ...this.#revoked.flatMap(({ asked }) => asked)].map(
        async (asked) => await asked.stop(),
      ),
    );
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map(async (asked) => await asked.stop()));
    await Promise.all(this.#revoked.flatMap(({ asked }) => asked).map(async (asked) => await asked.stop()));
  }

  /** Number of admissions after the bound, and of requests with revoked tokens. */
  get admitted(): { readonly late: number; readonly asked: number } {
    let [late, all] = [0, 0];
    for (const { atMs, asked } of this.#revoked) {
      for (const { verdicts } of asked) {
        late += admittedLate(verdicts, atMs);
        all += verdicts.filter(({ sentMs }) => sentMs > atMs).length;
      }
    }
    return { late, asked: all };
  }
}

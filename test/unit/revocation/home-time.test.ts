/**
 * Tokens are judged by the time of those who issued them (decision 39), whatever the clock of a cell or an edge says, and
 * however late messages are. Simulated: the home cell, and a process that follows it over PostgreSQL or through a hub.
 */
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { DatabaseClock } from "#database/database-clock.ts";
import type { FollowedRevocation } from "#database/repositories/tokens/followed-revocations.ts";
import { unguardedClock } from "#domain/clock.ts";
import { SignetError } from "#domain/errors.ts";
import { readLine } from "#revocation/chain.ts";
import type { Request } from "#revocation/hub-messages.ts";
import { HubSession, ProvenKnowledge } from "#revocation/hub-session.ts";
import { RevocationView } from "#revocation/view.ts";
import { createTokenMint } from "#tokens/oauth/access-token.ts";
import { createTokenAdmission } from "#tokens/oauth/token-admission.ts";
import { createTokenVerifier, type VerifyToken } from "#tokens/oauth/verify-access-token.ts";
import { generateSigningKey, openSigningKey, openVerificationKey } from "#tokens/signing-keys/signing-key.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { ModelPrimary } from "#test/support/model-primary.ts";
import { seededRandom } from "#test/support/seeded-random.ts";

const START_MS = 1_763_650_000_000;
const MINUTE_MS = 60_000;
const LEASE_MS = 240;
/** From contract 8. */
const BOUND_MS = 250;
const ROUND_MS = 5_000;
/** `exp` is so long after `iat`, and is accepted for so much longer. */
const VALID_MS = 900_000;
const TOLERATED_MS = 5_000;
/** Answers take less, so the time is not known better. */
const SLOWEST_MS = 240;
const ISSUER = "https://service.example";

const keyring = testKeyring();
const row = await generateSigningKey("ES256", keyring);
const signingKey = await openSigningKey(row, keyring);
const publicKey = openVerificationKey(row);

/** The home cell. Its clock is ahead of the real time by `aheadMs`. */
class Home {
  realMs = START_MS;
  aheadMs = 0;
  readonly primary = new ModelPrimary();
  readonly #mint = createTokenMint({
    issuer: ISSUER,
    audience: "signet",
    keys: { signingKey: () => signingKey },
    clock: unguardedClock({ now: () => this.now() }),
    randomBytes,
  });

  now(): number {
    return this.realMs + this.aheadMs;
  }

  async issue(credentialId = "crd_live"): Promise<string> {
    const subject = { clientId: "cl_1", tenantId: "ten_1", principalId: "prn_1", secretVersion: 1 };
    const { token } = await this.#mint({ ...subject, credentialId, region: "us", scope: "" });
    return token;
  }

  /** Issues a token and revokes it at once. */
  async issueRevoked(credentialId: string): Promise<string> {
    const token = await this.issue(credentialId);
    this.at().commit(credentialId, "credential");
    return token;
  }

  /** Returns the database as it is now. */
  at(): ModelPrimary {
    this.primary.nowUs = Math.round(this.now() * 1_000);
    return this.primary;
  }

  /** Live revocations after a number, as PostgreSQL reports them. */
  revocations(after: number): FollowedRevocation[] {
    return this.primary.lines
      .map((line) => readLine(line) as FollowedRevocation)
      .filter(({ seq, endsAtMs }) => seq > after && (endsAtMs ?? Infinity) > this.now());
  }
}

/** What goes wrong with the process's clocks. */
interface Fault {
  readonly name: string;
  /** How far its wall clock is ahead. */
  readonly wallMs?: number;
  /** How fast its clocks run. */
  readonly rate?: number;
  /** Changes the world at the beginning of a round. */
  readonly happen?: (round: number, world: World) => void;
  /** How long it is watched. */
  readonly minutes?: number;
  /** Whether tokens may be rejected, because the home cell's own clock is wrong. */
  readonly homeIsWrong?: boolean;
}

/** A question that the home cell has read, and whose answer is on its way. */
type Answer = () => void;

interface Link {
  readonly view: RevocationView;
  /** Asks. The first function reads at home, and returns the arrival of the answer. */
  readonly ask: () => () => Answer;
}

/** The home cell, the process, and the network between them. */
class World {
  readonly home = new Home();
  wallMs: number;
  readonly random: () => number;
  readonly #rate: number;
  #suspendedMs = 0;
  /** Answers that come much too late, and after which round. */
  readonly #late: { readonly answer: Answer; readonly round: number }[] = [];
  readonly link: Link;
  readonly admit: VerifyToken;

  constructor({ wallMs = 0, rate = 1 }: Fault, seed: number, follow: (world: World) => Link) {
    this.wallMs = wallMs;
    this.#rate = rate;
    this.random = seededRandom(seed);
    this.link = follow(this);
    const { view } = this.link;
    const time = this.time;
    const verify = createTokenVerifier({
      issuer: ISSUER,
      audience: "signet",
      keys: { verificationKey: () => publicKey },
      clock: time,
    });
    const renew = async (): Promise<boolean> => {
      for (let tries = 0; tries < 3 && !view.current; tries += 1) {
        this.exchange();
      }
      return await Promise.resolve(view.current);
    };
    this.admit = createTokenAdmission(
      verify,
      { view, renew },
      { admitted: () => undefined, refused: () => undefined },
    );
  }

  readonly monotonic = (): number => (this.home.realMs - START_MS - this.#suspendedMs) * this.#rate + 1_000;
  readonly wall = (): number => (this.home.realMs - START_MS) * this.#rate + START_MS + this.wallMs;
  readonly time = new DatabaseClock({ wall: this.wall, monotonic: this.monotonic });

  pass(ms: number): void {
    this.home.realMs += ms;
  }

  /** Suspends the machine, whose monotonic clock stands still. */
  suspend(ms: number): void {
    this.#suspendedMs += ms;
    this.pass(ms);
  }

  /** Asks, and reads the answer in time. */
  exchange(): void {
    const read = this.link.ask();
    this.pass(this.random() * (SLOWEST_MS / 2));
    const answer = read();
    this.pass(this.random() * (SLOWEST_MS / 2));
    answer();
  }

  /** Exchanges, loses, and delays messages by up to a minute. */
  talk(round: number): void {
    const read = this.link.ask();
    this.pass(this.random() * 50);
    this.#late.push({ answer: read(), round: round + Math.floor(this.random() * 12) });
    this.exchange();
    for (const late of this.#late.filter((each) => each.round <= round)) {
      this.#late.splice(this.#late.indexOf(late), 1);
      late.answer();
    }
  }

  /** Keeps back an answer of now until a round. */
  keepBack(round: number): void {
    this.#late.push({ answer: this.link.ask()(), round });
  }

  /** Returns the code of the refusal; undefined if the token is admitted. */
  readonly refusal = async (token: string): Promise<string | undefined> => {
    try {
      await this.admit(token);
      return undefined;
    } catch (error) {
      if (error instanceof SignetError) {
        return error.code;
      }
      throw error;
    }
  };
}

function overPostgres({ home, monotonic, wall, time }: World): Link {
  const view = new RevocationView({ leaseMs: LEASE_MS, clock: { now: wall }, timers: { monotonic }, time });
  return {
    view,
    ask: () => {
      const question = view.ask();
      return () => {
        const { epoch, sequence: seq } = home.at().state;
        const news = {
          seq,
          epoch,
          standby: false,
          nowMs: home.now(),
          revocations: home.revocations(question.after),
        };
        return () => void view.applyAnswer(question, news);
      };
    },
  };
}

function throughHub({ home, monotonic, wall, time, random }: World): Link {
  const knowledge = new ProvenKnowledge({
    leaseMs: LEASE_MS,
    clock: { now: wall },
    timers: { monotonic },
    time,
    checkCode: (statement, codes) => statement === codes,
    randomBytes: (length) => Buffer.alloc(length).map(() => Math.floor(256 * random())),
    onKeys: () => undefined,
    onApplied: () => undefined,
  });
  const requests: Request[] = [];
  const session = new HubSession(knowledge, (request) => void requests.push(request));
  const ask = (): (() => Answer) => {
    session.ask();
    const asked = requests.splice(0);
    return () => {
      const replies = asked.flatMap((request) => home.at().answer(request));
      return () => replies.forEach((reply) => void session.read(reply));
    };
  };
  session.begin();
  while (!knowledge.view.current) {
    ask()()();
  }
  return {
    view: knowledge.view,
    ask: () => {
      const read = ask();
      // Lines are requested when a proof shows that some are missing.
      return () => {
        const answer = read();
        return () => {
          answer();
          for (let more = 0; more < 3 && requests.length > 0; more += 1) {
            const asked = requests.splice(0);
            asked
              .flatMap((request) => home.at().answer(request))
              .forEach((reply) => void session.read(reply));
          }
        };
      };
    },
  };
}

const FAULTS: readonly Fault[] = [
  { name: "right" },
  ...[-400_000, 400_000, -20_000, 20_000, -900_000].map((wallMs) => ({
    name: `${wallMs / 1_000} s off as a whole`,
    wallMs,
  })),
  {
    name: "put forward and back",
    happen: (round, world) => {
      world.wallMs = [0, 3_600_000, -3_600_000][Math.floor(round / 50) % 3] ?? 0;
    },
  },
  { name: "1 % too fast", rate: 1.01 },
  { name: "1 % too slow", rate: 0.99 },
  {
    name: "of a machine that was suspended for 16 minutes, before which messages were sent",
    happen: (round, world) => {
      if (round === 100) {
        world.keepBack(101);
        world.keepBack(103);
        world.suspend(16 * MINUTE_MS);
      }
    },
    minutes: 50,
  },
  {
    name: "right while the home cell's goes back by 15 minutes",
    happen: (round, { home }) => {
      home.aheadMs = round < 60 ? 0 : -15 * MINUTE_MS;
    },
    minutes: 50,
    homeIsWrong: true,
  },
  {
    name: "right while the home cell's goes ahead by an hour for 3 minutes",
    happen: (round, { home }) => {
      home.aheadMs = round >= 60 && round < 96 ? 60 * MINUTE_MS : 0;
    },
    homeIsWrong: true,
  },
];

/** Returns what is wrong with the answers to tokens that are not revoked, while the home cell's clock is right. */
async function wrongWithLive(
  { home, refusal }: World,
  { ageMs, seen }: { readonly ageMs: number; readonly seen: string | undefined },
): Promise<string[]> {
  const fresh = await refusal(await home.issue());
  const isLive = ageMs < VALID_MS - ROUND_MS;
  const isPast = ageMs > VALID_MS + TOLERATED_MS + SLOWEST_MS;
  return [
    ...(fresh === undefined ? [] : [`fresh: ${fresh}`]),
    ...(isLive && seen !== undefined ? [`live: ${seen}`] : []),
    ...(isPast && seen !== "TOKEN_EXPIRED" ? [`expired: ${seen}`] : []),
  ];
}

/** Returns what is wrong with the answers to revoked tokens. */
async function wrongWithRevoked({ refusal }: World, revoked: readonly string[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const token of revoked) {
    const code = await refusal(token);
    wrong.push(...(code?.startsWith("TOKEN_") === true ? [] : [`revoked: ${code}`]));
  }
  return wrong;
}

describe.each([
  ["over PostgreSQL", overPostgres],
  ["through a hub", throughHub],
])("of a process that follows the home cell %s", (_name, follow) => {
  test.each(FAULTS)(
    "the clock is $name: fresh tokens are admitted, revoked and expired ones never",
    async (fault) => {
      const { happen, minutes = 30, homeIsWrong = false } = fault;
      const world = new World(fault, 38, follow);
      const { home, link } = world;
      world.exchange();
      const first = await home.issue();
      const firstAt = home.now();
      const revoked: string[] = [];
      const lasts = (minutes * MINUTE_MS) / ROUND_MS;
      const wrong: string[] = [];
      for (let round = 0; round < lasts; round += 1) {
        happen?.(round, world);
        // Before messages are exchanged: after a suspension, the process still has the time of before.
        const ageMs = home.now() - firstAt;
        const seen = await world.refusal(first);
        world.talk(round);
        if (round % 24 === 0) {
          revoked.push(await home.issueRevoked(`crd_${round}`));
          world.pass(BOUND_MS);
        }
        const problems = [
          ...(await wrongWithRevoked(world, revoked)),
          ...(homeIsWrong ? [] : await wrongWithLive(world, { ageMs, seen })),
        ];
        wrong.push(...problems.map((problem) => `round ${round}, ${problem}`));
        link.view.prune();
        world.pass(ROUND_MS);
      }
      expect(wrong).toEqual([]);
      // What is past is forgotten: otherwise the test would prove little.
      expect(link.view.size).toBeLessThan(revoked.length);
    },
  );
});

import { randomUUID } from "node:crypto";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import type {
  FollowedRevocation,
  RevocationNews,
} from "#database/repositories/tokens/followed-revocations.ts";
import { DatabaseClock } from "#database/database-clock.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import { REVOCATION_KINDS } from "#revocation/kinds.ts";
import { RevocationView } from "#revocation/view.ts";
import { cases } from "#test/support/properties.ts";

const LEASE_MS = 200;
const EPOCH = randomUUID();
const THUMBPRINT = "ab".repeat(32);
const TOKEN: RevocableToken = {
  credentialId: "crd_1",
  principalId: "prn_1",
  tenantId: "ten_1",
  jti: "jti_1",
  kid: "kid_1",
  issuedAt: 1_763_650_000,
  certificateThumbprint: Buffer.from(THUMBPRINT, "hex").toString("base64url"),
};
const TARGETS = {
  credential: "crd_1",
  principal: "prn_1",
  tenant: "ten_1",
  jti: "jti_1",
  kid: "kid_1",
  cert: THUMBPRINT,
} as const;

let monotonic: number;
let wall: number;
let view: RevocationView;

function newView(now = () => wall): RevocationView {
  const machine = { wall: now, monotonic: () => monotonic };
  return new RevocationView({
    leaseMs: LEASE_MS,
    clock: { now },
    time: new DatabaseClock(machine),
    timers: machine,
  });
}

function pass(ms: number): void {
  monotonic += ms;
  wall += ms;
}

function news(seq: number, ...revocations: readonly FollowedRevocation[]): RevocationNews {
  return { seq, epoch: EPOCH, standby: false, nowMs: wall, revocations };
}

function revocation(kind: keyof typeof TARGETS, lifeMs: number | null = 1_000): FollowedRevocation {
  return {
    seq: 1,
    kind,
    target: TARGETS[kind],
    endsAtMs: lifeMs === null ? null : wall + lifeMs,
    atMs: 0,
    issuedBefore: null,
  };
}

beforeEach(() => {
  monotonic = 1_000_000;
  wall = 1_763_650_000_000;
  view = newView();
});

test("the view admits nothing before the first complete answer", () => {
  expect(view.verdict(TOKEN)).toBe("stale");
});

describe("a token is revoked", () => {
  test.each(REVOCATION_KINDS)("by its %s, from an answer and from a notification", (kind) => {
    view.applyAnswer(view.ask(), news(0));
    expect(view.verdict(TOKEN)).toBe("admit");
    view.applyNotification(`1:${kind}:${TARGETS[kind]}`);
    expect(view.verdict(TOKEN)).toBe("revoked");

    const other = newView();
    other.applyAnswer(other.ask(), news(1, revocation(kind)));
    expect(other.verdict(TOKEN)).toBe("revoked");
    expect(
      other.verdict({
        ...TOKEN,
        certificateThumbprint: undefined,
        jti: "x",
        kid: "x",
        credentialId: "x",
        principalId: "x",
        tenantId: "x",
      }),
    ).toBe("admit");
  });

  test("also before the first answer, by nothing that is known: its time comes with the answer", () => {
    expect(view.applyNotification("1:jti:jti_1")).toBe(false);
    expect(view.verdict(TOKEN)).toBe("stale");
  });

  test("until its revocation expires and is forgotten; keys and certificates forever", () => {
    view.applyAnswer(view.ask(), news(2, revocation("credential", 500), revocation("kid", null)));
    pass(499);
    view.prune();
    expect(view.size).toBe(2);
    // Ends are kept in whole seconds.
    pass(1_000);
    view.prune();
    expect(view.size).toBe(1);
    pass(1e12);
    view.prune();
    expect(view.verdict(TOKEN)).toBe("revoked");
  });

  test("never by garbage on the channel, which is not an error", () => {
    view.applyAnswer(view.ask(), news(0));
    for (const payload of ["", ":", "1", "x:y", "1:nothing:crd_1", "1:cert:zz", "1:credential"]) {
      view.applyNotification(payload);
    }
    expect(view.verdict(TOKEN)).toBe("admit");
    expect(view.sequence).toBe(0);
  });
});

describe("the lease", () => {
  test("counts from the sending of the question, not from its answer", () => {
    const question = view.ask();
    pass(150);
    view.applyAnswer(question, news(0));
    pass(49);
    expect(view.verdict(TOKEN)).toBe("admit");
    pass(1);
    expect(view.verdict(TOKEN)).toBe("stale");
  });

  test("is not shortened by an older answer that arrives later", () => {
    const older = view.ask();
    pass(100);
    const newer = view.ask();
    view.applyAnswer(newer, news(0));
    view.applyAnswer(older, news(0));
    pass(199);
    expect(view.verdict(TOKEN)).toBe("admit");
  });

  test("ends when the machine was suspended, whatever the monotonic clock says", () => {
    view.applyAnswer(view.ask(), news(0));
    wall += 101;
    expect(view.verdict(TOKEN)).toBe("stale");
  });

  test("is not granted by an answer to a question from before the suspension", () => {
    const question = view.ask();
    wall += 60_000;
    view.applyAnswer(question, news(0));
    expect(view.verdict(TOKEN)).toBe("stale");
  });

  test("is not granted by a standby", () => {
    expect(view.applyAnswer(view.ask(), { ...news(0), standby: true })).toBe("standby");
    expect(view.verdict(TOKEN)).toBe("stale");
  });
});

describe("the known state", () => {
  test("is requested from the last number of an answer: lost notifications come with the next answer", () => {
    view.applyAnswer(view.ask(), news(4));
    view.applyNotification("7:jti:other");
    expect(view.ask().after).toBe(4);
    view.applyAnswer(view.ask(), news(7, revocation("principal")));
    expect(view.verdict(TOKEN)).toBe("revoked");
    expect(view.ask().after).toBe(7);
  });

  test.each([
    ["an older state of the database", { ...news(3) }],
    ["another database", { ...news(9), epoch: randomUUID() }],
  ])("is kept when %s comes, and nothing is admitted until it is read again", (_name, restored) => {
    view.applyAnswer(view.ask(), news(5, revocation("tenant")));
    expect(view.applyAnswer(view.ask(), restored)).toBe("restored");
    const free = { ...TOKEN, tenantId: "ten_2" };
    expect(view.verdict(free)).toBe("stale");
    expect(view.applyAnswer(view.ask(true), restored)).toBe("replaced");
    expect(view.sequence).toBe(restored.seq);
    expect(view.verdict(free)).toBe("admit");
    expect(view.verdict(TOKEN)).toBe("revoked");
  });

  test("is replaced by an older state over a new connection, and not by the same one", () => {
    expect(view.applyAnswer(view.ask(true), news(5))).toBe("current");
    expect(view.applyAnswer(view.ask(true), news(5))).toBe("current");
    expect(view.applyAnswer(view.ask(true), news(3))).toBe("replaced");
    expect(view.applyAnswer(view.ask(true), news(3))).toBe("current");
  });
});

test("no token is admitted longer than the lease after its revocation, whatever is delayed, lost or reordered", () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 120 }) }),
    fc.record({ do: fc.constant("ask" as const), ms: fc.constant(0) }),
    fc.record({ do: fc.constant("answer" as const), ms: fc.nat({ max: 5 }) }),
    fc.record({ do: fc.constant("revoke" as const), ms: fc.constant(0) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      monotonic = 1_000_000;
      const subject = newView(() => monotonic);
      let revokedAt = Infinity;
      // An answer shows the database when the question is sent or later; here when it is sent, the worst case.
      const underWay: (() => void)[] = [];
      for (const { do: action, ms } of steps) {
        if (action === "wait") {
          monotonic += ms;
        } else if (action === "ask") {
          const question = subject.ask();
          const answer =
            revokedAt === Infinity
              ? news(0)
              : news(1, ...(question.after < 1 ? [revocation("jti", null)] : []));
          underWay.push(() => void subject.applyAnswer(question, answer));
        } else if (action === "answer") {
          underWay.splice(ms % Math.max(underWay.length, 1), 1)[0]?.();
        } else {
          revokedAt = Math.min(revokedAt, monotonic);
        }
        const admitted = subject.verdict(TOKEN) === "admit";
        expect(admitted && monotonic >= revokedAt + LEASE_MS).toBe(false);
      }
    }),
    cases(100),
  );
});

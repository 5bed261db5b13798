/** Receipts: the state of each process, the outcome, and what the summary claims. */
import { describe, expect, it } from "vitest";
import type { FollowerStanding, Propagation } from "#database/repositories/tokens/revocations.ts";
import { isSettled, receiptOf } from "#revocation/receipt.ts";

const LEASE_MS = 200;

function follower(lockKey: number, more: Partial<FollowerStanding> = {}): FollowerStanding {
  return {
    lockKey,
    process: "edge",
    region: null,
    leaseMs: LEASE_MS,
    connected: true,
    acked: true,
    ms: 7,
    ...more,
  };
}

const silent = { acked: false, ms: null } as const;

function propagation(...followers: FollowerStanding[]): Propagation {
  return { followers, reported: false, slowestMs: null, recorded: null };
}

describe("a receipt", () => {
  it("names each process with its time", () => {
    const receipt = receiptOf(
      propagation(follower(1), follower(0xab, { process: "api", region: "eu", ms: 12 })),
      20,
    );
    expect(receipt).toEqual({
      live: 2,
      acked: 2,
      maxMs: 12,
      expired: 0,
      outcome: "applied",
      summary: "All 2 processes applied the revocation within 12 ms.",
      processes: [
        { id: "edge-00000001", kind: "edge", region: null, state: "applied", ms: 7 },
        { id: "api-000000ab", kind: "api", region: "eu", state: "applied", ms: 12 },
      ],
    });
  });

  it("is slow but safe if a silent process's lease has expired", () => {
    const receipt = receiptOf(propagation(follower(1), follower(2, silent)), LEASE_MS);
    expect(receipt).toMatchObject({ live: 2, acked: 1, maxMs: 7, outcome: "slow_but_safe" });
    expect(receipt.processes[0]).toMatchObject({ id: "edge-00000002", state: "lease_expired", ms: null });
    expect(receipt.summary).toBe(
      "Slow but safe: edge-00000002 did not acknowledge within 250 ms. Its lease has expired, so it admits no request until it applies the revocation.",
    );
  });

  it("names at most 200 processes, the silent ones first, and five in its summary", () => {
    const followers = Array.from({ length: 2_000 }, (_none, number) =>
      follower(number, number < 300 ? {} : silent),
    );
    const receipt = receiptOf(propagation(...followers), LEASE_MS);
    expect(receipt).toMatchObject({ live: 2_000, acked: 300, expired: 1_700 });
    expect(receipt.processes).toHaveLength(200);
    expect(receipt.processes.every(({ state }) => state === "lease_expired")).toBe(true);
    expect(receipt.summary).toContain("edge-00000130 and 1695 more did not acknowledge");
  });

  it("is not certain while a silent process may hold a lease: too early, in bounded mode, or unknown", () => {
    for (const [standing, sinceCommitMs] of [
      [silent, LEASE_MS - 1],
      [{ ...silent, leaseMs: 59_950 }, 250],
      [{ ...silent, leaseMs: null }, 250],
    ] as const) {
      const receipt = receiptOf(propagation(follower(1), follower(2, standing)), sinceCommitMs);
      expect(receipt).toMatchObject({ outcome: "pending", processes: [{ state: "pending" }, {}] });
      expect(receipt.summary).toContain("edge-00000002 did not acknowledge and may still admit tokens");
    }
  });

  it("is slow but safe if a process acknowledged after the bound, unless its lease covers that", () => {
    expect(receiptOf(propagation(follower(1, { ms: 300 })), 20)).toMatchObject({
      outcome: "slow_but_safe",
      summary: expect.stringContaining("edge-00000001 acknowledged after 300 ms. Its lease had expired"),
    });
    expect(receiptOf(propagation(follower(1, { ms: 300, leaseMs: 59_950 })), 20)).toMatchObject({
      outcome: "applied",
      summary: "The only process applied the revocation within 300 ms.",
    });
  });

  it("does not count a process without a connection, but names it", () => {
    const receipt = receiptOf(
      propagation(follower(1), follower(2, { ...silent, connected: false })),
      LEASE_MS,
    );
    expect(receipt).toMatchObject({ live: 1, acked: 1, outcome: "slow_but_safe" });
    expect(receipt.processes).toHaveLength(2);
  });

  it("repeats recorded times, and has none for a process that acknowledged later", () => {
    const later = { followers: [follower(1, { ms: null }), follower(2, { ms: null })], reported: true };
    const recorded = [
      { id: "edge-00000001", ms: 9 },
      { id: "edge-00000002", ms: null },
    ];
    expect(receiptOf({ ...later, slowestMs: 9, recorded }, 3)).toMatchObject({
      maxMs: 9,
      outcome: "applied",
      processes: [{ ms: 9 }, { ms: null }],
    });
  });

  it("says so if no process is connected", () => {
    expect(receiptOf(propagation(), 3)).toMatchObject({ live: 0, outcome: "applied", maxMs: null });
    expect(receiptOf(propagation(), 3).summary).toContain("No process");
  });
});

describe("waiting", () => {
  it("ends when every process has acknowledged", () => {
    expect(isSettled(propagation(follower(1), follower(2)), 5)).toBe(true);
    expect(isSettled(propagation(follower(1), follower(2, silent)), LEASE_MS)).toBe(false);
  });

  it("ends for a process without a connection when its lease has expired", () => {
    const gone = follower(2, { ...silent, connected: false });
    expect(isSettled(propagation(follower(1), gone), LEASE_MS - 1)).toBe(false);
    expect(isSettled(propagation(follower(1), gone), LEASE_MS)).toBe(true);
  });
});

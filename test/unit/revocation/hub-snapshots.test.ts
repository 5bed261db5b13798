/** Snapshots of many revocations: in chunks that are requested one by one, from one hub at a time. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { DatabaseClock } from "#database/database-clock.ts";
import { SnapshotChunks } from "#revocation/hub-child.ts";
import type { Reply, Request } from "#revocation/hub-messages.ts";
import { HubLines } from "#revocation/hub-revocations.ts";
import { HubSession, ProvenKnowledge } from "#revocation/hub-session.ts";
import { claimsOf } from "#test/support/hubs.ts";
import { ModelPrimary } from "#test/support/model-primary.ts";
import { cases } from "#test/support/properties.ts";

const CREDENTIALS = 12_000;
/** More proofs than a conversation waits for another one. */
const PROOFS = 50;

let primary: ModelPrimary;
let knowledge: ProvenKnowledge;

beforeEach(() => {
  primary = new ModelPrimary();
  primary.commit("ten_1");
  for (let number = 0; number < CREDENTIALS; number += 1) {
    primary.commit(`crd_${number}`, "credential");
  }
  knowledge = new ProvenKnowledge({
    leaseMs: 240,
    clock: { now: () => 0 },
    time: new DatabaseClock({ wall: () => 0, monotonic: () => 0 }),
    timers: { monotonic: () => 0 },
    checkCode: (statement, codes) => statement === codes,
    randomBytes: (count) => randomBytes(count),
    onKeys: () => undefined,
    onApplied: () => undefined,
  });
});

/** A conversation with a hub that sends a snapshot in given chunks, as many ahead as a hub does. */
class Wire {
  readonly session: HubSession;
  readonly requests: Request[] = [];
  #chunks: string[] = [];

  constructor() {
    this.session = new HubSession(knowledge, (request) => void this.requests.push(request));
    this.session.begin();
  }

  get asksForMore(): boolean {
    return this.requests.some(({ type }) => type === "more");
  }

  read(...replies: readonly Reply[]): void {
    replies.forEach((reply) => this.session.read(reply));
  }

  /** Begins the snapshot, and sends the first chunks. */
  begin(chunks: readonly string[], ahead: number): void {
    this.requests.length = 0;
    const { lines: _lines, ...head } = primary.snapshot();
    this.#chunks = [...chunks];
    this.read({ type: "snapshot", chunks: chunks.length, ...head });
    for (let sent = 0; sent < ahead; sent += 1) {
      this.chunk();
    }
  }

  /** Sends the next chunk, if there is one. */
  chunk(): void {
    const text = this.#chunks.shift();
    if (text !== undefined) {
      this.read({ type: "chunk", text });
    }
  }

  /** Sends chunks for as long as they are requested. */
  serve(): void {
    for (let at = 0; at < this.requests.length; at += 1) {
      if (this.requests[at]?.type === "more") {
        this.chunk();
      }
    }
    this.requests.length = 0;
  }

  /** Proves the current state. */
  prove(): void {
    this.requests.length = 0;
    this.session.ask();
    const asked = this.requests.splice(0);
    this.read(...asked.flatMap((request) => (request.type === "nonce" ? primary.answer(request) : [])));
  }
}

function split(text: string, size: number): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
    text.slice(index * size, (index + 1) * size),
  );
}

const denied = (credentialId: string, tenantId = "ten_2"): boolean =>
  knowledge.view.verdict(claimsOf({ credentialId, tenantId })) === "revoked";

test("a snapshot counts after its last chunk, wherever the chunks are cut", () => {
  const { lines } = primary.snapshot();
  fc.assert(
    fc.property(fc.integer({ min: 1_000, max: lines.length }), (size) => {
      knowledge = new ProvenKnowledge(knowledge.options);
      const wire = new Wire();
      const chunks = split(lines, size);
      wire.begin(chunks, 0);
      for (let left = chunks.length; left > 0; left -= 1) {
        expect(knowledge.view.size).toBe(0);
        wire.chunk();
      }
      expect(knowledge.view.size).toBe(CREDENTIALS + 1);
      expect(denied("crd_0") && denied(`crd_${CREDENTIALS - 1}`) && denied("crd_x", "ten_1")).toBe(true);
      expect(denied("crd_x")).toBe(false);
    }),
    cases(20),
  );
});

test("each chunk but the last is followed by a request for another one", () => {
  const wire = new Wire();
  const chunks = split(primary.snapshot().lines, 100_000);
  wire.begin(chunks, chunks.length);
  expect(wire.requests.filter(({ type }) => type === "more")).toHaveLength(chunks.length - 1);
});

test("a forged line leaves nothing of the snapshot", () => {
  const wire = new Wire();
  wire.begin(split(primary.snapshot().lines.replace(":crd_5:", ":crd_y:"), 100_000), 1);
  wire.serve();
  expect(knowledge.view.size).toBe(0);
  expect(denied("crd_y")).toBe(false);
});

describe("of two hubs", () => {
  const chunks = (): string[] => split(primary.snapshot().lines, 50_000);

  function started(): readonly [Wire, Wire] {
    const [first, second] = [new Wire(), new Wire()];
    first.begin(chunks(), 2);
    second.begin(chunks(), 2);
    expect([first.asksForMore, second.asksForMore]).toEqual([true, false]);
    return [first, second];
  }

  test("one brings the snapshot, and the other one what has been revoked since", () => {
    const [one, other] = started();
    one.serve();
    expect(knowledge.view.size).toBe(CREDENTIALS + 1);
    primary.commit("crd_late", "credential");
    other.prove();
    expect(other.requests).toEqual([{ type: "lines", after: CREDENTIALS + 1 }]);
    other.read(...other.requests.splice(0).flatMap((request) => primary.answer(request)));
    other.prove();
    expect(denied("crd_late")).toBe(true);
    expect(knowledge.view.sequence).toBe(CREDENTIALS + 2);
  });

  test("the other one goes on if the first stops in the middle", () => {
    const [, other] = started();
    for (let proofs = 0; proofs < PROOFS && !other.asksForMore; proofs += 1) {
      other.prove();
    }
    expect(other.asksForMore).toBe(true);
    other.serve();
    expect(knowledge.view.size).toBe(CREDENTIALS + 1);
  });
});

test("a hub divides lines and snapshots into messages, and joins to the same", () => {
  const lines = new HubLines();
  for (let sequence = 1; sequence <= 12_001; sequence += 1) {
    expect(lines.keep(`${sequence}:jti:x:1:`)).toBe(sequence);
  }
  const parts = lines.between(1, 12_001);
  expect(parts.map(({ length }) => length)).toEqual([5_000, 5_000, 2_000]);
  expect(parts.flat().map((line) => Number(line.split(":")[0]))).toEqual(
    Array.from({ length: 12_000 }, (_, index) => index + 2),
  );
  expect(lines.between(12_001, 12_001)).toEqual([]);

  const text = primary.snapshot().lines;
  const chunks = new SnapshotChunks(text);
  const texts = Array.from({ length: chunks.count }, () => chunks.next());
  expect(texts.join("")).toBe(text);
  expect(chunks.next()).toBeUndefined();
  expect(new SnapshotChunks("").next()).toBeUndefined();
});

test("a hub keeps its last 20,000 lines at least, and 40,000 at most", () => {
  const lines = new HubLines();
  for (let sequence = 1; sequence <= 40_001; sequence += 1) {
    lines.keep(`${sequence}:jti:x:1:`);
    expect(lines.shorten(sequence)).toBe(sequence === 40_001);
  }
  expect(lines.between(0, 40_001).flat()).toHaveLength(20_000);
});

/**
 * A model of the ledger for property tests: the expected state of each member, kept the simple way, and the steps that
 * workflow can take.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { AttemptResult, IndexedDelay } from "#activities/types.ts";
import { ATTEMPT_MAX, drawOffsets, togetherMs } from "#domain/retry-schedule.ts";
import { DeliveryLedger, type Wave } from "#workflows/delivery-ledger.ts";
import type { DeliverInput, DeliverResult } from "#workflows/messages.ts";

export const HOUR_MS = 3_600_000;
export const START_MS = 1_800_000_000_000;
export const DEAD_LETTER_MS = 7 * 24 * HOUR_MS;
const OFFSETS = drawOffsets(72 * HOUR_MS, () => 0.5);

/** The input of a carrier with this many members, `dlv_0` and on. */
export function carrier(members: number): DeliverInput {
  return {
    v: 1,
    members: Array.from({ length: members }, (_, index) => ({ id: `dlv_${index}`, epoch: index + 1 })),
    offsets_ms: OFFSETS,
    dead_letter_ms: DEAD_LETTER_MS,
  };
}

/** The expected state of one member, kept the simple way. */
interface ExpectedMember {
  attempts: number;
  phase: "RETRYING" | "DEAD_LETTERED" | "DONE";
  dueMs: number;
  busy: boolean;
  /** Its receiver asked to wait. */
  waits: boolean;
  /** When an attempt was last requested while another was in progress. */
  askedMs: number;
}

/** A request this shortly before an attempt ends may come after its end: clocks differ. */
const ASKED_SLACK_MS = 50;

export interface Model {
  nowMs: number;
  readonly members: Map<string, ExpectedMember>;
  /** Taken, not landed. */
  waves: Wave[];
}

/** The ledger under test; each continued run has a new one. */
export interface Real {
  ledger: DeliveryLedger;
}

function member(model: Model, id: string): ExpectedMember {
  const found = model.members.get(id);
  if (found === undefined) {
    throw new Error(`${id} is not a member of this carrier`);
  }
  return found;
}

function idle(model: Model, phase: ExpectedMember["phase"]): string[] {
  return [...model.members].flatMap(([id, expected]) =>
    expected.phase === phase && !expected.busy ? [id] : [],
  );
}

/** Checks everything that must hold between any two steps. */
function expectAgreement(model: Model, { ledger }: Real): void {
  const open = [...model.members.values()].filter(({ phase }) => phase !== "DONE");
  const ended = Object.values(ledger.result).reduce((sum: number, count: number) => sum + count, 0);
  assert.equal(ledger.open, open.length);
  assert.equal(ended + ledger.open, model.members.size);
  for (const status of ledger.status()) {
    const expected = member(model, status.delivery_id);
    const queued = expected.phase === "RETRYING" && expected.attempts === 0;
    assert.equal(status.state, queued ? "QUEUED" : expected.phase);
    if (expected.phase !== "DONE") {
      assert.equal(status.attempts, expected.attempts);
    }
  }
  const dues = open.flatMap(({ busy, dueMs }) => (busy ? [] : [dueMs]));
  assert.equal(ledger.nextDue?.atMs, dues.length === 0 ? undefined : Math.min(...dues));
}

export type Step = fc.Command<Model, Real>;

class Advance implements Step {
  readonly ms: number;
  constructor(ms: number) {
    this.ms = ms;
  }
  check(): boolean {
    return true;
  }
  run(model: Model): void {
    model.nowMs += this.ms;
  }
  toString(): string {
    return `advance ${this.ms} ms`;
  }
}

/** Advances to the instant of the workflow's timer. */
class AdvanceToNext implements Step {
  check(): boolean {
    return true;
  }
  run(model: Model, { ledger }: Real): void {
    model.nowMs = Math.max(model.nowMs, ledger.nextDue?.atMs ?? 0);
  }
  toString(): string {
    return "advance to what is due next";
  }
}

class TakeWaves implements Step {
  check(): boolean {
    return true;
  }
  run(model: Model, real: Real): void {
    for (
      let wave = real.ledger.takeDueWave(model.nowMs);
      wave !== undefined;
      wave = real.ledger.takeDueWave(model.nowMs)
    ) {
      this.#expectRight(model, wave);
      model.waves.push(wave);
      for (const { id } of wave.input.members) {
        member(model, id).busy = true;
      }
    }
    for (const id of idle(model, "RETRYING")) {
      assert.ok(member(model, id).dueMs > model.nowMs);
    }
    expectAgreement(model, real);
  }
  #expectRight(model: Model, { input }: Wave): void {
    const ids = input.members.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(input.attempt <= ATTEMPT_MAX);
    const horizonMs = model.nowMs + togetherMs(OFFSETS, input.attempt);
    // No member that is done, dead or in progress; all at the same attempt; the longest due among them, the rest due soon.
    for (const id of ids) {
      assert.ok(idle(model, "RETRYING").includes(id));
      assert.equal(member(model, id).attempts + 1, input.attempt);
      const { waits, dueMs } = member(model, id);
      assert.ok(dueMs <= (waits ? model.nowMs : horizonMs));
    }
    const dues = ids.map((id) => member(model, id).dueMs);
    const earliest = Math.min(...idle(model, "RETRYING").map((id) => member(model, id).dueMs));
    assert.equal(Math.min(...dues), earliest);
    assert.ok(earliest <= model.nowMs);
    // No member that could have come along is left out.
    for (const id of idle(model, "RETRYING").filter((each) => !ids.includes(each))) {
      const { attempts, dueMs, waits } = member(model, id);
      assert.ok(attempts + 1 !== input.attempt || dueMs > (waits ? model.nowMs : horizonMs));
    }
  }
  toString(): string {
    return "take what is due";
  }
}

type Fate = "delivered" | "failed" | "asked" | "postponed" | "dead" | "moved" | "unsettled";

/** An activity returns. */
class Land implements Step {
  readonly pick: number;
  readonly fates: readonly Fate[];
  readonly tookMs: number;
  constructor(pick: number, fates: readonly Fate[], tookMs: number) {
    this.pick = pick;
    this.fates = fates;
    this.tookMs = tookMs;
  }
  check(model: Readonly<Model>): boolean {
    return model.waves.length > 0;
  }
  run(model: Model, real: Real): void {
    const [wave] = model.waves.splice(this.pick % model.waves.length, 1);
    if (wave === undefined) {
      return;
    }
    const { attempt, members } = wave.input;
    const startedAt = model.nowMs;
    model.nowMs += this.tookMs;
    const delays = { failed: [] as IndexedDelay[], postponed: [] as IndexedDelay[] };
    const lists = { dead: [] as number[], moved: [] as number[], unsettled: [] as number[] };
    const notEarlier: number[] = [];
    members.forEach(({ id }, index) => {
      const fate = this.#fate(attempt, index);
      if (fate === "failed" || fate === "asked" || fate === "postponed") {
        delays[fate === "postponed" ? fate : "failed"].push([index, (index + 1) * this.tookMs]);
        notEarlier.push(...(fate === "asked" ? [index] : []));
      } else if (fate !== "delivered") {
        lists[fate].push(index);
      }
      this.#expect(
        member(model, id),
        { fate, attempt, dueMs: model.nowMs + (index + 1) * this.tookMs },
        model,
      );
    });
    const result: AttemptResult = {
      started_at: startedAt,
      ended_at: model.nowMs,
      ...delays,
      ...lists,
      not_earlier: notEarlier,
    };
    const rest = real.ledger.unsettled(wave, result);
    real.ledger.apply(wave, result);
    if (rest !== undefined) {
      assert.deepEqual(
        rest.input.members,
        lists.unsettled.map((index) => members[index]),
      );
      model.waves.push(rest);
    }
    expectAgreement(model, real);
  }
  /** Only first attempts stay unsettled; 17 failures are final. */
  #fate(attempt: number, index: number): Fate {
    const fate = this.fates[index % this.fates.length] ?? "delivered";
    if (fate === "unsettled" && attempt > 1) {
      return "failed";
    }
    return (fate === "failed" || fate === "asked") && attempt === ATTEMPT_MAX ? "dead" : fate;
  }
  #expect(
    expected: ExpectedMember,
    { fate, attempt, dueMs }: { fate: Fate; attempt: number; dueMs: number },
    { nowMs }: Model,
  ): void {
    if (expected.phase === "DONE" || fate === "unsettled") {
      return;
    }
    expected.busy = false;
    expected.waits = fate === "asked";
    if (fate === "postponed") {
      expected.dueMs = dueMs;
      return;
    }
    // Without an answer, a dead letter below the last attempt was not attempted.
    expected.attempts = fate === "dead" && attempt < ATTEMPT_MAX ? expected.attempts : attempt;
    if (fate === "failed" || fate === "asked") {
      expected.dueMs = expected.askedMs + ASKED_SLACK_MS >= nowMs ? nowMs : dueMs;
    } else if (fate === "dead") {
      expected.phase = "DEAD_LETTERED";
      expected.dueMs = nowMs + DEAD_LETTER_MS;
    } else {
      expected.phase = "DONE";
    }
  }
  toString(): string {
    return `land wave ${this.pick} after ${this.tookMs} ms: ${this.fates.join(", ")}`;
  }
}

/** An activity could not run. */
class Postpone implements Step {
  readonly pick: number;
  constructor(pick: number) {
    this.pick = pick;
  }
  check(model: Readonly<Model>): boolean {
    return model.waves.length > 0;
  }
  run(model: Model, real: Real): void {
    const [wave] = model.waves.splice(this.pick % model.waves.length, 1);
    const dueMs = model.nowMs + 30_000;
    real.ledger.postpone(wave?.entries ?? [], dueMs);
    for (const { id } of wave?.input.members ?? []) {
      Object.assign(member(model, id), { busy: false, dueMs });
    }
    expectAgreement(model, real);
  }
  toString(): string {
    return `postpone wave ${this.pick}`;
  }
}

class AttemptNow implements Step {
  readonly named: readonly number[];
  constructor(named: readonly number[]) {
    this.named = named;
  }
  check(): boolean {
    return true;
  }
  run(model: Model, real: Real): void {
    const ids = this.named.map((index) => `dlv_${index}`);
    real.ledger.attemptNow(real.ledger.named(ids), model.nowMs);
    for (const id of idle(model, "RETRYING").filter((each) => ids.includes(each))) {
      member(model, id).dueMs = Math.min(member(model, id).dueMs, model.nowMs);
    }
    for (const expected of ids.flatMap((id) => model.members.get(id) ?? [])) {
      if (expected.phase === "RETRYING" && expected.busy) {
        expected.askedMs = model.nowMs;
      }
    }
    expectAgreement(model, real);
  }
  toString(): string {
    return `attempt ${this.named.join(", ")} now`;
  }
}

class Close implements Step {
  readonly named: readonly number[];
  readonly outcome: keyof DeliverResult;
  constructor(named: readonly number[], outcome: keyof DeliverResult) {
    this.named = named;
    this.outcome = outcome;
  }
  check(): boolean {
    return true;
  }
  run(model: Model, real: Real): void {
    const before = real.ledger.result[this.outcome];
    const ids = this.named.map((index) => `dlv_${index}`);
    const open = [...model.members].filter(([id, { phase }]) => phase !== "DONE" && ids.includes(id));
    real.ledger.close(real.ledger.named(ids), this.outcome);
    assert.equal(real.ledger.result[this.outcome], before + open.length);
    for (const [, expected] of open) {
      expected.phase = "DONE";
    }
    expectAgreement(model, real);
  }
  toString(): string {
    return `close ${this.named.join(", ")} as ${this.outcome}`;
  }
}

class Expire implements Step {
  check(): boolean {
    return true;
  }
  run(model: Model, real: Real): void {
    const overdue = idle(model, "DEAD_LETTERED").filter((id) => member(model, id).dueMs <= model.nowMs);
    const taken = real.ledger.takeExpiring(model.nowMs);
    assert.deepEqual(
      real.ledger.members(taken).map(({ id }) => id),
      overdue,
    );
    assert.deepEqual(real.ledger.takeExpiring(model.nowMs), []);
    real.ledger.close(taken, "expired");
    for (const id of overdue) {
      member(model, id).phase = "DONE";
    }
    expectAgreement(model, real);
  }
  toString(): string {
    return "expire";
  }
}

/** Continues as new while nothing is in progress. */
class Continue implements Step {
  check(model: Readonly<Model>): boolean {
    return model.waves.length === 0;
  }
  run(model: Model, real: Real): void {
    const input = JSON.parse(JSON.stringify(real.ledger.successor())) as DeliverInput;
    const continued = new DeliveryLedger(input, model.nowMs + 12_345);
    continued.waits = true;
    assert.deepEqual(
      continued.status(),
      real.ledger.status().filter(({ state }) => state !== "DONE"),
    );
    assert.equal(continued.state, real.ledger.state);
    assert.deepEqual(continued.result, real.ledger.result);
    assert.deepEqual(continued.successor(), input);
    real.ledger = continued;
    // A request counts for the attempt in progress, and there is none.
    for (const expected of model.members.values()) {
      expected.askedMs = 0;
    }
    expectAgreement(model, real);
  }
  toString(): string {
    return "continue as new";
  }
}

const named = fc.uniqueArray(fc.nat(7), { maxLength: 8 });
const fates = fc.array(
  fc.constantFrom<Fate>(
    "delivered",
    "failed",
    "failed",
    "asked",
    "asked",
    "postponed",
    "dead",
    "moved",
    "unsettled",
  ),
  { minLength: 1, maxLength: 8 },
);
/** Any steps of a workflow with its ledger, in any order. */
export const ledgerSteps = fc.commands<Model, Real>(
  [
    fc.oneof(fc.nat(5_000), fc.nat(40 * HOUR_MS)).map((ms) => new Advance(ms)),
    fc.constant(new AdvanceToNext()),
    fc.constant(new TakeWaves()),
    fc.constant(new TakeWaves()),
    fc.tuple(fc.nat(7), fates, fc.nat(12_000)).map((tuple) => new Land(...tuple)),
    fc.tuple(fc.nat(7), fates, fc.nat(12_000)).map((tuple) => new Land(...tuple)),
    fc.nat(7).map((pick) => new Postpone(pick)),
    named.map((each) => new AttemptNow(each)),
    fc
      .tuple(named, fc.constantFrom<keyof DeliverResult>("replayed", "cancelled", "moved"))
      .map((tuple) => new Close(...tuple)),
    fc.constant(new Expire()),
    fc.constant(new Continue()),
  ],
  { size: "max", maxCommands: 120 },
);

/** Returns a carrier at its start, in both views. */
export function atTheStart(members: number): { model: Model; real: Real } {
  const input = carrier(members);
  const expected = input.members.map(({ id }): [string, ExpectedMember] => [
    id,
    { attempts: 0, phase: "RETRYING", dueMs: START_MS, busy: false, waits: false, askedMs: 0 },
  ]);
  const ledger = new DeliveryLedger(input, START_MS);
  ledger.waits = true;
  return {
    model: { nowMs: START_MS, members: new Map(expected), waves: [] },
    real: { ledger },
  };
}

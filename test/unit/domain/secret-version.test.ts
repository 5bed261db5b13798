/** Validity of a secret's version, computed from its times alone. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  admissionOf,
  type RotationRules,
  type SecretVersionTimes,
  stateAt,
  wantsSuccessor,
} from "#domain/secret-version.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const RULES: RotationRules = {
  periodMs: 30 * DAY,
  quietMs: DAY,
  maxOverlapMs: 45 * DAY,
  rescueMs: 180 * DAY,
};

const instant = fc.integer({ min: 0, max: 400 * DAY });
const maybe = fc.option(instant);
const version: fc.Arbitrary<SecretVersionTimes> = fc
  .record({
    state: fc.constantFrom("PENDING", "ACTIVE", "RETIRING", "RETIRED", "REVOKED"),
    issued_at: instant,
    due_at: maybe,
    retire_by: maybe,
    superseded_at: maybe,
    last_used_at: maybe,
    retired_at: maybe,
    retired_reason: fc.option(fc.constantFrom("quiet", "age")),
  })
  .map((times) => times as SecretVersionTimes);

const admit = (times: SecretVersionTimes, nowMs: number, registeredCertificate: boolean) =>
  admissionOf(times, RULES, { nowMs, registeredCertificate });

/** Returns a version with a state and no other times. */
const bare = (state: SecretVersionTimes["state"], times: Partial<SecretVersionTimes> = {}) => ({
  state,
  issued_at: 0,
  due_at: null,
  retire_by: null,
  superseded_at: null,
  last_used_at: null,
  retired_at: null,
  retired_reason: null,
  ...times,
});

describe("whatever the times", () => {
  test("a version once rejected stays rejected unless something is written", () => {
    fc.assert(
      fc.property(version, instant, instant, fc.boolean(), (times, now, later, certificate) => {
        fc.pre(admit(times, now, certificate) === "refused");
        expect(admit(times, now + later, certificate)).toBe("refused");
      }),
    );
  });

  test("the registered certificate never invalidates a version that is valid without it", () => {
    fc.assert(
      fc.property(version, instant, (times, now) => {
        const without = admit(times, now, false);
        expect(["good", "refused"]).toContain(without);
        expect(without === "good" && admit(times, now, true) !== "good").toBe(false);
      }),
    );
  });

  test("age alone never ends a version that is used over the registered certificate", () => {
    fc.assert(
      fc.property(version, instant, instant, (times, now, later) => {
        const { state, retired_reason } = times;
        fc.pre(
          state === "PENDING" || state === "ACTIVE" || (state === "RETIRED" && retired_reason === "age"),
        );
        expect(admit(times, now + later, true)).not.toBe("refused");
      }),
    );
  });

  test("a revoked version is rejected, and a pending one is valid", () => {
    fc.assert(
      fc.property(version, instant, fc.boolean(), (times, now, certificate) => {
        expect(admit({ ...times, state: "REVOKED" }, now, certificate)).toBe("refused");
        expect(admit({ ...times, state: "PENDING" }, now, certificate)).toBe("good");
      }),
    );
  });

  test("a version that has ended without a certificate is shown as retired, unless active with a registered one", () => {
    fc.assert(
      fc.property(version, instant, fc.boolean(), (times, now, namesCertificate) => {
        const shown = stateAt(times, RULES, { nowMs: now, namesCertificate });
        const over = admit(times, now, false) === "refused";
        const expected = over && (times.state !== "ACTIVE" || !namesCertificate);
        expect(shown).toBe(expected && times.state !== "REVOKED" ? "RETIRED" : times.state);
      }),
    );
  });
});

describe("an active version", () => {
  const times = bare("ACTIVE", { due_at: 30 * DAY, retire_by: 75 * DAY });

  test("is due for a successor from its due date on", () => {
    expect(wantsSuccessor(times, 30 * DAY - 1)).toBe(false);
    expect(wantsSuccessor(times, 30 * DAY)).toBe(true);
    expect(wantsSuccessor(bare("ACTIVE"), 4_000 * DAY)).toBe(false);
  });

  test("is valid until day 75, and without limit over its registered certificate", () => {
    expect(admit(times, 75 * DAY - 1, false)).toBe("good");
    expect(admit(times, 75 * DAY, false)).toBe("refused");
    expect(admit(times, 75 * DAY, true)).toBe("aged");
    expect(admit(times, 40_000 * DAY, true)).toBe("aged");
  });
});

describe("a superseded version", () => {
  const times = bare("RETIRING", { retire_by: 75 * DAY, superseded_at: 30 * DAY });

  test("ends 24 hours after its last use, or after its successor's first if it was not used since", () => {
    expect(admit(times, 31 * DAY - 1, false)).toBe("good");
    expect(admit(times, 31 * DAY, false)).toBe("refused");
    const used = { ...times, last_used_at: 40 * DAY };
    expect(admit(used, 41 * DAY - 1, false)).toBe("good");
    expect(admit(used, 41 * DAY, false)).toBe("refused");
  });

  test("ends on day 75 however much it is used, except over its registered certificate", () => {
    const used = { ...times, last_used_at: 75 * DAY - HOUR };
    expect(admit(used, 75 * DAY, false)).toBe("refused");
    expect(admit(used, 75 * DAY, true)).toBe("aged");
  });

  test("that has lapsed is rescued by its registered certificate for 180 days", () => {
    expect(admit(times, 31 * DAY, true)).toBe("rescued");
    expect(admit(times, 211 * DAY - 1, true)).toBe("rescued");
    expect(admit(times, 211 * DAY, true)).toBe("refused");
  });

  test("that is being rescued stays valid while it is used, and never without the certificate", () => {
    const rescued = bare("RETIRED", {
      retired_at: 31 * DAY,
      retired_reason: "quiet",
      last_used_at: 200 * DAY,
    });
    expect(admit(rescued, 200 * DAY + 1, false)).toBe("refused");
    expect(admit(rescued, 379 * DAY, true)).toBe("rescued");
    expect(admit(rescued, 380 * DAY, true)).toBe("refused");
  });
});

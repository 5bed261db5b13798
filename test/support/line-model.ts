/** An in-memory model of endpoint lines, for tests of the pace and as a reference for the SQL statement. */
import type { TurnRequest, Turn } from "#database/repositories/webhooks/rate-limit-turns.ts";

interface Line {
  rateLimit: number;
  freeAtMs: number;
  lateFreeAtMs: number;
}

export function createLineModel(): (requests: readonly TurnRequest[], nowMs: number) => Map<string, Turn> {
  const lines = new Map<string, Line>();
  return (requests, nowMs) =>
    new Map(
      requests.map(({ endpointId, rateLimit, fresh, late }) => {
        const before = lines.get(endpointId);
        const kept = before?.rateLimit === rateLimit ? before : undefined;
        const stepMs = 1_000 / rateLimit;
        const freshFromMs = Math.max(nowMs, kept?.freeAtMs ?? 0) + late * stepMs;
        const lateFromMs = Math.max(nowMs, kept?.lateFreeAtMs ?? 0);
        lines.set(endpointId, {
          rateLimit,
          freeAtMs: freshFromMs + fresh * stepMs,
          lateFreeAtMs: lateFromMs + late * stepMs,
        });
        return [endpointId, { freshFromMs, lateFromMs }];
      }),
    );
}

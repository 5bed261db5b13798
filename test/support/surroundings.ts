/** The deployment around an explained object in tests of `why`, at a fixed instant. */
import type { Surroundings } from "#api/admin/why/explanation.ts";
import type { TenantRow } from "#database/repositories/tenants.ts";

export const NOW = new Date("2026-11-25T03:00:00.000Z");
export const ago = (seconds: number): Date => new Date(NOW.getTime() - seconds * 1_000);
export const ahead = (seconds: number): Date => ago(-seconds);

export const tenant = {
  id: "ten_1",
  name: "Acme",
  state: "ACTIVE",
  held_at: null,
  erased_at: null,
} as unknown as TenantRow;

export const around: Surroundings = {
  now: NOW,
  tenant,
  workers: { live: 2, lastSeenAt: ago(1) },
  temporalReachable: true,
};

export const pause = { namespace: "signet", since: ago(600), reason: "receiver moves" };
export const held = { ...around, tenant: { ...tenant, held_at: ago(3_600) } };
export const noWorker = { ...around, workers: { live: 0, lastSeenAt: ago(300) } };
export const noTemporal = { ...around, temporalReachable: false };

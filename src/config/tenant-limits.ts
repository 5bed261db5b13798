/** The limits of a tenant: their names, their ranges, and the settings with their defaults. */
import type { Config } from "./config.ts";

interface LimitRule {
  readonly setting:
    | "apiRatePerTenant"
    | "publishRatePerTenant"
    | "endpointsPerTenant"
    | "eventTypesPerTenant"
    | "credentialsPerPrincipal";
  readonly min: number;
  readonly max: number;
  readonly doc: string;
}

/** The limits by their names on the wire. */
export const TENANT_LIMITS = {
  api_requests_per_second: {
    setting: "apiRatePerTenant",
    min: 0,
    max: 10_000_000,
    doc: "Requests with a token per second, except publishing; 0: no limit",
  },
  published_events_per_second: {
    setting: "publishRatePerTenant",
    min: 0,
    max: 10_000_000,
    doc: "Events per second; 0: no limit",
  },
  endpoints: { setting: "endpointsPerTenant", min: 0, max: 10_000, doc: "Endpoints" },
  event_types: { setting: "eventTypesPerTenant", min: 0, max: 100_000, doc: "Event types in the catalogue" },
  credentials_per_principal: {
    setting: "credentialsPerPrincipal",
    min: 0,
    max: 10_000,
    doc: "Credentials of one principal that are not revoked",
  },
} as const satisfies Readonly<Record<string, LimitRule>>;

export type TenantLimitName = keyof typeof TENANT_LIMITS;
export type TenantLimitValues = Readonly<Record<TenantLimitName, number>>;
/** The settings that apply to a tenant without limits of its own. */
export type LimitDefaults = Pick<Config, (typeof TENANT_LIMITS)[TenantLimitName]["setting"]>;

export const TENANT_LIMIT_NAMES = Object.keys(TENANT_LIMITS) as TenantLimitName[];

/** Returns a tenant's limits: its own, else the defaults. */
export function effectiveLimits(
  defaults: LimitDefaults,
  own: Partial<TenantLimitValues> = {},
): TenantLimitValues {
  const entries = TENANT_LIMIT_NAMES.map((name) => [
    name,
    own[name] ?? defaults[TENANT_LIMITS[name].setting],
  ]);
  return Object.fromEntries(entries) as TenantLimitValues;
}

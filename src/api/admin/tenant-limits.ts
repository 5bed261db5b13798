/** Limits of one tenant that override the settings. */
import { found } from "#domain/errors.ts";
import { Type } from "typebox";
import { findTenantLimits, setTenantLimits } from "#database/repositories/tenant-policies.ts";
import {
  effectiveLimits,
  TENANT_LIMIT_NAMES,
  TENANT_LIMITS,
  type TenantLimitName,
  type TenantLimitValues,
} from "#config/tenant-limits.ts";
import { Body, IdParams, Nullable, Resource } from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import type { AdminServices } from "./services.ts";

type OwnLimits = Partial<TenantLimitValues>;

function eachLimit<Schema>(schemaOf: (name: TenantLimitName) => Schema): Record<TenantLimitName, Schema> {
  const entries = TENANT_LIMIT_NAMES.map((name) => [name, schemaOf(name)]);
  return Object.fromEntries(entries) as Record<TenantLimitName, Schema>;
}

const Change = Body(
  "TenantLimitsChange",
  eachLimit((name) => {
    const { min: minimum, max: maximum, doc: description } = TENANT_LIMITS[name];
    return Type.Optional(
      Nullable(Type.Integer({ minimum, maximum, description: `${description}; null restores the default` })),
    );
  }),
);

const Limits = Resource("TenantLimits", {
  limits: Resource(
    "EffectiveTenantLimits",
    eachLimit(() => Type.Integer()),
  ),
  own: Resource(
    "OwnTenantLimits",
    eachLimit(() => Type.Optional(Type.Integer())),
    {
      description: "Limits set for this tenant",
    },
  ),
});

const OPERATION = { tag: "tenants", params: IdParams("tenant"), response: { 200: Limits } };

/** Returns the limits after a change; null removes a limit. */
function changed(
  own: OwnLimits,
  change: Readonly<Partial<Record<TenantLimitName, number | null>>>,
): OwnLimits {
  const merged = Object.entries({ ...own, ...change }).filter(([, value]) => value !== null);
  return Object.fromEntries(merged) as OwnLimits;
}

export function registerTenantLimitRoutes(
  server: SignetServer,
  { pool, commit, limitDefaults }: AdminServices,
): void {
  const present = (own: OwnLimits) => ({ limits: effectiveLimits(limitDefaults, own), own });

  server.get(
    "/admin/v1/tenants/:id/limits",
    operation({
      ...OPERATION,
      id: "getTenantLimits",
      operator: "read",
      summary: "Read a tenant's limits",
      description: "`limits` are the effective limits; `own` are those set for this tenant.",
    }),
    async ({ params }) => present(found(await findTenantLimits(pool, params.id), "tenant")),
  );

  server.patch(
    "/admin/v1/tenants/:id/limits",
    operation({
      home: true,
      ...OPERATION,
      id: "updateTenantLimits",
      operator: "provision",
      audits: "tenant.limits_changed",
      summary: "Change a tenant's limits",
      description: "Absent members stay unchanged; `null` restores the default from the settings.",
      requestExamples: { "more endpoints": { endpoints: 100 } },
      body: Change,
    }),
    async (request, reply) => {
      const { id } = request.params;
      return await commit(request, reply, async (db) => {
        const before = found(await findTenantLimits(db, id), "tenant");
        const own = changed(before, request.body);
        await setTenantLimits(db, id, own);
        const entry = { tenant: id, target: id, details: { limits: own } };
        return { answer: present(own), entry, policyOf: id };
      });
    },
  );
}

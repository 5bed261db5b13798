/** The portal's look for one tenant, which overrides the settings. */
import { type Static, Type } from "typebox";
import { findPortalBrand, lockPortalBrand, setPortalBrand } from "#database/repositories/portal-brands.ts";
import { type FieldProblem, found, validationFailed } from "#domain/errors.ts";
import {
  accentProblem,
  BRAND_NAME_MAX,
  BRAND_URL_MAX,
  COLOUR_PATTERN,
  isSupport,
  LOGO_MAX,
  logoType,
  type PortalBrand,
  type PortalLogo,
} from "#domain/portal-brand.ts";
import { Body, Formed, IdParams, Nullable, Resource, TextLine } from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import type { AdminServices } from "./services.ts";
import { tenantToChange } from "./to-change.ts";

const BASE64_MAX = Math.ceil(LOGO_MAX / 3) * 4;

const Colour = (pages: string) =>
  Formed(
    { pattern: COLOUR_PATTERN, wanted: "a colour such as #2450c0", shown: true },
    {
      description: `Colour of links and buttons on ${pages} pages, with a contrast of 4.5:1`,
      examples: ["#2450c0"],
    },
  );

const ReturnUrl = Formed(
  { pattern: '^https://[^\\s<>"]+$', wanted: "an https URL such as https://app.example.com" },
  { maxLength: BRAND_URL_MAX, description: "Where people return to", examples: ["https://app.example.com"] },
);

const Own = {
  name: Nullable(TextLine(BRAND_NAME_MAX, { description: "Name in the header and in titles" })),
  accent: Nullable(Colour("light")),
  accent_dark: Nullable(Colour("dark")),
  return_url: Nullable(ReturnUrl),
  support: Nullable(
    TextLine(BRAND_URL_MAX, {
      description: "E-mail address or https URL of the support",
      examples: ["help@example.com"],
    }),
  ),
};

const Change = Body("PortalBrandChange", {
  name: Type.Optional(Own.name),
  accent: Type.Optional(Own.accent),
  accent_dark: Type.Optional(Own.accent_dark),
  return_url: Type.Optional(Own.return_url),
  support: Type.Optional(Own.support),
  logo: Type.Optional(
    Nullable(
      Type.String({
        maxLength: BASE64_MAX,
        description: `PNG or WebP of at most ${LOGO_MAX} bytes, in base64; null restores the setting`,
      }),
    ),
  ),
});
type Change = Static<typeof Change>;

const Portal = Resource("PortalBrand", {
  ...Own,
  logo: Nullable(
    Type.Object({
      type: Type.String({ examples: ["image/png"] }),
      bytes: Type.Integer({ description: "Size of the image" }),
    }),
  ),
});

/** Names of the stored members by their names in the API. */
const MEMBERS = {
  name: "name",
  accent: "accent",
  accent_dark: "accentDark",
  return_url: "returnUrl",
  support: "support",
} as const;
type Member = keyof typeof MEMBERS;
const NAMES = Object.keys(MEMBERS) as Member[];

function present(own: Partial<PortalBrand>): Static<typeof Portal> {
  const texts = Object.fromEntries(NAMES.map((name) => [name, own[MEMBERS[name]] ?? null]));
  const { logo } = own;
  return {
    ...(texts as Record<Member, string | null>),
    logo: logo === undefined ? null : { type: logo.type, bytes: Buffer.from(logo.data, "base64").length },
  };
}

/** Returns the image of a logo in base64; undefined unless it is a PNG or WebP image that is small enough. */
function logoOf(base64: string): PortalLogo | undefined {
  const bytes = Buffer.from(base64, "base64");
  const type = bytes.length > LOGO_MAX ? undefined : logoType(bytes);
  return type && { type, data: bytes.toString("base64") };
}

/** Checks of the members beyond the schema: each returns a problem, or undefined. */
const CHECKS: Readonly<Partial<Record<keyof Change, (value: string) => string | undefined>>> = {
  accent: (value) => accentProblem(value, "light"),
  accent_dark: (value) => accentProblem(value, "dark"),
  return_url: (value) => (URL.canParse(value) ? undefined : "must be an https URL"),
  support: (value) => (isSupport(value) ? undefined : "must be an e-mail address or an https URL"),
  logo: (value) =>
    logoOf(value) === undefined
      ? `must be a PNG or WebP image of at most ${LOGO_MAX} bytes, in base64`
      : undefined,
};

/** @throws SignetError VALIDATION_FAILED for unreadable colours, invalid addresses, and other images */
function checked(change: Change): Partial<PortalBrand> {
  const problems = Object.entries(change).flatMap(([member, value]): FieldProblem[] => {
    const detail = value === null ? undefined : CHECKS[member as keyof Change]?.(value);
    return detail === undefined ? [] : [{ pointer: `/${member}`, code: "invalid", detail }];
  });
  if (problems.length > 0) {
    throw validationFailed(problems);
  }
  const texts = NAMES.flatMap((name) => {
    const value = change[name];
    return typeof value === "string" ? [[MEMBERS[name], value] as const] : [];
  });
  const logo = typeof change.logo === "string" ? logoOf(change.logo) : undefined;
  return { ...Object.fromEntries(texts), ...(logo && { logo }) };
}

/** Returns the brand after a change; null removes a member. */
function changed(
  own: Partial<PortalBrand>,
  change: Change,
  given: Partial<PortalBrand>,
): Partial<PortalBrand> {
  const removed = new Set<string>([
    ...NAMES.filter((name) => change[name] === null).map((name) => MEMBERS[name]),
    ...(change.logo === null ? ["logo"] : []),
  ]);
  return Object.fromEntries(Object.entries({ ...own, ...given }).filter(([name]) => !removed.has(name)));
}

export function registerTenantPortalRoutes(server: SignetServer, { pool, commit }: AdminServices): void {
  const common = { tag: "tenants", params: IdParams("tenant"), response: { 200: Portal } };

  server.get(
    "/admin/v1/tenants/:id/portal",
    operation({
      ...common,
      id: "getTenantPortal",
      operator: "read",
      summary: "Read a tenant's look of the portal",
      description: "Members that are null come from the settings.",
    }),
    async ({ params }) => present(found(await findPortalBrand(pool, params.id), "tenant")),
  );

  server.patch(
    "/admin/v1/tenants/:id/portal",
    operation({
      home: true,
      ...common,
      id: "updateTenantPortal",
      operator: "provision",
      audits: "tenant.portal_changed",
      summary: "Change a tenant's look of the portal",
      description:
        "Absent members stay unchanged; `null` restores the setting. Pages show the change within 5 seconds. Colours need a contrast of 4.5:1; without `accent_dark`, it is derived from `accent`.",
      errors: ["INVALID_STATE"],
      requestExamples: {
        "name and colour": { name: "Acme", accent: "#2450c0", return_url: "https://app.example.com" },
      },
      body: Change,
    }),
    async (request, reply) => {
      const { id } = request.params;
      const given = checked(request.body);
      return await commit(request, reply, async (db) => {
        await tenantToChange(db, id);
        const own = changed(found(await lockPortalBrand(db, id), "tenant"), request.body, given);
        await setPortalBrand(db, id, own);
        const details = { changed: Object.keys(request.body).toSorted() };
        return { answer: present(own), entry: { tenant: id, target: id, details } };
      });
    },
  );
}

import { readFile } from "node:fs/promises";
import { Command } from "commander";
import { type AdminCall, createAdminCall, type Resource, segment } from "./admin-client.ts";
import { type CliContext, CommandError } from "./context.ts";
import { misused } from "./exit-codes.ts";
import { USAGE_COLUMNS } from "./client/delivery.ts";
import { given } from "./client/given.ts";
import { type ListOptions, listQuery, withListOptions, withPageOfList } from "./list-options.ts";
import { type OutputOptions, printPage, printResource } from "./output.ts";
import { addReasoned } from "./reason.ts";
import { addRevoke } from "./revocation.ts";
import { USAGE_DAYS } from "#domain/delivery.ts";
import { messageOf } from "#runtime/thrown.ts";

interface CreateOptions extends OutputOptions {
  readonly region: string;
  readonly platform?: boolean;
}

interface EraseOptions extends OutputOptions {
  readonly confirm: string;
  readonly reason?: string;
}

interface DeliveriesOptions extends ListOptions {
  readonly state?: string;
  readonly endpoint?: string;
  readonly event?: string;
}

/** The most items of a page. */
const PAGE_MAX = "100";

const DELIVERY_COLUMNS = [
  "id",
  "created_at",
  "event_type",
  "state",
  "attempt_count",
  "last_status",
  "last_error",
  "next_attempt_at",
];

/** `signet tenant create | list | show | endpoints | deliveries | usage | suspend | resume | hold | release | erase | limits | portal | revoke`. */
export function tenantCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const tenant = new Command("tenant").description("customers of the platform");

  tenant
    .command("create <name>")
    .description("add a tenant")
    .requiredOption("--region <region>", "region, for instance eu, eu-west-1 or global")
    .option("--platform", "the tenant of the platform's own services; there is at most one")
    .option("--json", "print the API's object as JSON")
    .action(async (name: string, options: CreateOptions) => {
      const body = { name, region: options.region, ...(options.platform === true ? { platform: true } : {}) };
      printResource(context, await call("POST", "/tenants", body), options);
    });

  withListOptions(
    tenant
      .command("list")
      .description("list tenants, newest first")
      .option("--name <part>", "tenants with this part in their name"),
  ).action(async ({ name, ...options }: ListOptions & { readonly name?: string }) => {
    const page = await call("GET", `/tenants${listQuery(options, { name })}`);
    printPage(context, page, ["id", "name", "region", "state", "created_at"], options);
  });

  tenant
    .command("show <id>")
    .description("show one tenant")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: OutputOptions) => {
      printResource(context, await call("GET", `/tenants/${segment(id)}`), options);
    });

  tenant
    .command("erase <id>")
    .description("destroy a tenant's data key and all its data; this cannot be undone")
    .requiredOption("--confirm <name>", "name of the tenant, as confirmation")
    .option("--reason <text>", "for the compliance log, which is kept; no personal data")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, { confirm, reason, ...output }: EraseOptions) => {
      const body = { confirm, ...(reason === undefined ? {} : { reason }) };
      printResource(context, await call("POST", `/tenants/${segment(id)}/erase`, body), output);
    });

  addReads(tenant, context, call);
  addUsage(tenant, context, call);
  addStates(tenant, context, call);
  addLimits(tenant, context, call);
  addPortal(tenant, context, call);
  return addRevoke(tenant, context, "tenants");
}

/** Adds the lists of what a tenant has. Each leaves an entry in the tenant's compliance log. */
function addReads(tenant: Command, context: CliContext, call: AdminCall): void {
  withListOptions(
    tenant.command("endpoints <id>").description("list a tenant's endpoints, newest first, on record"),
  ).action(async (id: string, options: ListOptions) => {
    const page = await call("GET", `/tenants/${segment(id)}/endpoints${listQuery(options)}`);
    if (options.json === true) {
      printPage(context, page, [], options);
      return;
    }
    const data = (page["data"] as readonly Resource[]).map((row) => ({
      ...row,
      health: (row["health"] as Resource)["status"],
    }));
    printPage(context, { ...page, data }, ["id", "state", "health", "slow_until", "url"], options);
  });

  withListOptions(
    tenant
      .command("deliveries <id>")
      .description("list a tenant's deliveries, newest first, on record")
      .option("--state <state>", "filter by state, for instance RETRYING or DEAD_LETTERED")
      .option("--endpoint <id>", "filter by endpoint")
      .option("--event <id>", "filter by event"),
  ).action(async (id: string, { state, endpoint, event, ...options }: DeliveriesOptions) => {
    const filters = { state, endpoint_id: endpoint, event_id: event };
    const page = await call("GET", `/tenants/${segment(id)}/deliveries${listQuery(options, filters)}`);
    printPage(context, page, DELIVERY_COLUMNS, options);
  });
}

interface UsageOptions extends ListOptions {
  readonly from?: string;
  readonly to?: string;
}

function addUsage(tenant: Command, context: CliContext, call: AdminCall): void {
  withPageOfList(tenant.command("usage [id]"))
    .description("show events, deliveries and attempts of one tenant or all, by UTC day")
    .option("--from <day>", `first day, for instance 2025-11-01; ${USAGE_DAYS} days ago by default`)
    .option("--to <day>", "last day; today by default")
    .option("--json", "print the API's objects as JSON")
    .action(async (id: string | undefined, { from, to, limit, cursor, ...output }: UsageOptions) => {
      const filters = { tenant_id: id, from, to };
      const pageAt = async (at: string | undefined): Promise<Resource> =>
        await call("GET", `/usage${listQuery(given({ limit: limit ?? PAGE_MAX, cursor: at }), filters)}`);
      const first = await pageAt(cursor);
      const data = [...(first["data"] as readonly Resource[])];
      const following = first["next_cursor"] as string | null;
      // Without options of a page, the table has all rows.
      const isWhole = limit === undefined && cursor === undefined;
      for (let next = isWhole ? following : null; next !== null;) {
        const page = await pageAt(next);
        data.push(...(page["data"] as readonly Resource[]));
        next = page["next_cursor"] as string | null;
      }
      const next_cursor = isWhole ? null : following;
      printPage(context, { data, next_cursor }, ["tenant_id", ...USAGE_COLUMNS], output);
    });
}

function addStates(tenant: Command, context: CliContext, call: AdminCall): void {
  const states = [
    ["suspend", "suspend a tenant: it gets no new tokens, and its current ones are revoked"],
    ["resume", "undo a suspension and a hold: the tenant gets tokens, and its deliveries continue"],
    ["hold", "pause a tenant's deliveries and freeze its endpoints' secrets"],
    ["release", "resume the deliveries of a held tenant"],
  ] as const;
  for (const [name, description] of states) {
    addReasoned(tenant, context, call, {
      usage: `${name} <id>`,
      description,
      holds: name === "suspend",
      request: (id) => ({ path: `/tenants/${segment(id)}/${name}` }),
    });
  }
}

interface LimitOptions extends OutputOptions {
  readonly set?: readonly string[];
}

/** Parses `endpoints=100`, or `endpoints=default` to use the setting again. */
function limitChange(changes: readonly string[]): Record<string, number | null> {
  const read = changes.map((change) => {
    const [name = "", value = ""] = change.split("=");
    if (value !== "default" && !/^\d{1,9}$/.test(value)) {
      throw misused(`--set takes name=number or name=default, not ${change}`);
    }
    return [name, value === "default" ? null : Number(value)] as const;
  });
  return Object.fromEntries(read);
}

function addLimits(tenant: Command, context: CliContext, call: AdminCall): void {
  tenant
    .command("limits <id>")
    .description("show a tenant's limits, or change them")
    .option(
      "--set <name=value...>",
      "new limits, for instance endpoints=100, or endpoints=default for the service's setting",
    )
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: LimitOptions) => {
      const path = `/tenants/${segment(id)}/limits`;
      const answer =
        options.set === undefined
          ? await call("GET", path)
          : await call("PATCH", path, limitChange(options.set));
      printResource(context, answer, options);
    });
}

interface PortalOptions extends OutputOptions {
  readonly name?: string;
  readonly logo?: string;
  readonly accent?: string;
  readonly accentDark?: string;
  readonly returnUrl?: string;
  readonly support?: string;
}

async function logoOf(file: string): Promise<string> {
  try {
    return (await readFile(file)).toString("base64");
  } catch (error) {
    throw new CommandError(`--logo: ${messageOf(error)}`, { cause: error });
  }
}

/** Returns the change: `default` restores the service's setting. */
async function portalChange(options: PortalOptions): Promise<Record<string, string | null>> {
  const { name, logo, accent, accentDark, returnUrl, support } = options;
  const image = logo === undefined || logo === "default" ? logo : await logoOf(logo);
  const given = { name, accent, accent_dark: accentDark, return_url: returnUrl, support, logo: image };
  const change = Object.entries(given).flatMap(([member, value]) =>
    value === undefined ? [] : [[member, value === "default" ? null : value] as const],
  );
  return Object.fromEntries(change);
}

function addPortal(tenant: Command, context: CliContext, call: AdminCall): void {
  tenant
    .command("portal <id>")
    .description("show the look of a tenant's portal, or change it; `default` restores the service's setting")
    .option("--name <name>", "name in the header and in titles")
    .option("--logo <file>", "PNG or WebP image of at most 32 KiB")
    .option("--accent <colour>", "colour of links and buttons on light pages, for instance #2450c0")
    .option("--accent-dark <colour>", "the same on dark pages; default: derived from --accent")
    .option("--return-url <url>", "where people return to")
    .option("--support <address>", "e-mail address or https URL of the support")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: PortalOptions) => {
      const path = `/tenants/${segment(id)}/portal`;
      const change = await portalChange(options);
      const answer =
        Object.keys(change).length === 0 ? await call("GET", path) : await call("PATCH", path, change);
      printResource(context, answer, options);
    });
}

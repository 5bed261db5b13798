/** The operators' own pages: the overview, the search over tenants, explanations, and the view of a tenant. */
import { Type } from "typebox";
import { findOnRecord } from "#api/admin/find.ts";
import type { Overview } from "#api/schemas/overview.ts";
import { ExplainedId, explainOnRecord } from "#api/admin/why/why.ts";
import type { Found } from "#database/repositories/operator-finds.ts";
import { listTenants } from "#database/repositories/tenants.ts";
import { Closed, IdParams } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { SEE_OTHER } from "../context.ts";
import { field } from "../filters.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import { CONSOLE_SCOPE, type PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { badge, facts, formFields, moment, table, temporalFact, temporalViews } from "../parts.ts";
import { workflowsOfUrl } from "#temporal/views.ts";
import type { Visit } from "../visit.ts";
import type { ConsoleOptions } from "./console-options.ts";
import { targetLink, targetReference } from "./target-pages.ts";

const OVERVIEW = "/portal/operator";
const TENANTS = "/portal/operator/tenants";
const CONFIG = { portal: [CONSOLE_SCOPE] };
/** Rows of the list without a search, and of a search. */
const LISTED = 50;
const SEARCH_MIN = 3;
const HOUR_MS = 3_600_000;

const SearchQuery = Closed({ q: Type.Optional(Line(256)) });

/** Renders the button that begins to view a tenant. */
function viewButton(visit: Visit, id: string, name: string): Html {
  return html`<form method="post" action="${TENANTS}/${id}/view">
    ${formFields(visit)}<button>View<span class="hidden"> ${name}</span></button>
  </form>`;
}

function whyLink(id: string): Html {
  return html`<a href="${OVERVIEW}/why/${id}"><code>${id}</code></a>`;
}

/** Renders a link to the explanation of a result, or to its own page. */
function foundLink({ kind, id }: Pick<Found, "kind" | "id">): Html {
  return kind === "principal" || kind === "credential" ? targetReference(kind, id) : whyLink(id);
}

/** Renders a count, which may have reached its limit. */
function count(value: number, max: number): string {
  return value >= max ? `${max.toLocaleString("en")} or more` : value.toLocaleString("en");
}

/** Returns what operators should look at. */
function attention({ workers, temporal_reachable: temporal, ...overview }: Overview): Part[] {
  const { endpoints, rotations, certificates, checkpoints, at } = overview;
  const unsignedMs =
    checkpoints.oldest_unsigned_at === null ? 0 : Date.parse(at) - Date.parse(checkpoints.oldest_unsigned_at);
  const ending = certificates.files.filter(
    ({ ends_at: end }) => Date.parse(end) - Date.parse(at) < 30 * 24 * HOUR_MS,
  );
  const facts: readonly (readonly [boolean, string])[] = [
    [
      !workers.some(({ alive }) => alive),
      "No worker is alive, so nothing is delivered. Start one: signet worker.",
    ],
    [!temporal, "Temporal is unreachable from this api process, so retries wait."],
    [
      endpoints.failing > 0,
      endpoints.failing === 1
        ? "One endpoint accepts nothing at the moment."
        : `${count(endpoints.failing, overview.counted_max)} endpoints accept nothing at the moment.`,
    ],
    [
      endpoints.stopped > 0,
      endpoints.stopped === 1
        ? "One endpoint was disabled by the service."
        : `${count(endpoints.stopped, overview.counted_max)} endpoints were disabled by the service.`,
    ],
    [rotations.credentials > 0, `${rotations.credentials} client secrets were due for rotation a week ago.`],
    [rotations.endpoint_secrets > 0, `${rotations.endpoint_secrets} endpoint secrets should have rotated.`],
    [rotations.signing_key, "A signing key should have been replaced."],
    [
      ending.length > 0,
      `Certificate files of this process end soon: ${ending.map(({ file }) => file).join(", ")}.`,
    ],
    [certificates.endpoints.length > 0, "Client certificates of deliveries end within 30 days."],
    [unsignedMs > HOUR_MS, "The compliance log has had no checkpoint for an hour."],
  ];
  return facts.filter(([applies]) => applies).map(([, text]) => html`<li class="card">${text}</li>`);
}

function section(id: string, title: string, body: Part): Html {
  return html`<section aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    ${body}
  </section>`;
}

/** Renders an age in its two largest units. */
function age(seconds: number | null): string {
  if (seconds === null) {
    return "–";
  }
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes === 0) {
    return `${seconds} s`;
  }
  return hours === 0
    ? `${minutes} min ${seconds % 60} s`
    : `${hours.toLocaleString("en")} h ${minutes % 60} min`;
}

function queueFacts({ queues, endpoints, checkpoints, counted_max: max }: Overview): Html {
  return facts([
    ["Waiting for a worker", count(queues.waiting, max)],
    ["First attempt in progress", count(queues.started, max)],
    ["Waiting for a retry", count(queues.retrying, max)],
    [
      "Dead letters",
      `${count(queues.dead_letters, max)}, ${count(queues.expiring, max)} expire within a day`,
    ],
    ["Verifications waiting", count(queues.verifications, max)],
    ["Replay jobs", `${queues.replays_running} running, ${queues.replays_paused} paused`],
    ["Slow endpoints", count(endpoints.slow, max)],
    ["Newest checkpoint", moment(checkpoints.newest_at)],
  ]);
}

function lagTable(visit: Visit, { lag }: Overview): Part {
  return lag.length === 0
    ? html`<p class="empty">No tenant is behind.</p>`
    : table(
        "Lag by tenant",
        ["Tenant", "Waiting", "Oldest", "Overdue retries", "Most overdue", "Action"],
        lag.map((row) => [
          html`<a href="${OVERVIEW}/why/${row.tenant_id}">${row.tenant_name}</a>
            ${row.held && badge("wait", "on hold")}`,
          String(row.waiting),
          age(row.oldest_waiting_seconds),
          String(row.overdue),
          age(row.most_overdue_seconds),
          viewButton(visit, row.tenant_id, row.tenant_name),
        ]),
      );
}

function endpointTable(visit: Visit, { endpoints: { worst } }: Overview): Part {
  return worst.length === 0
    ? html`<p class="empty">All endpoints accept deliveries.</p>`
    : table(
        "Endpoints and since when they fail",
        ["Endpoint", "Tenant", "State", "Since", "Action"],
        worst.map((row) => [
          whyLink(row.id),
          row.tenant_name,
          badge("bad", row.state === "ACTIVE" ? "failing" : `disabled, ${row.disabled_reason ?? ""}`),
          moment(row.since),
          viewButton(visit, row.tenant_id, row.tenant_name),
        ]),
      );
}

function certificateTable({ certificates }: Overview): Part {
  const rows = [
    ...certificates.files.map(({ file, ends_at: end }) => [
      html`<code>${file}</code>`,
      "this process",
      moment(end),
    ]),
    ...certificates.endpoints.map((row) => [whyLink(row.endpoint_id), row.tenant_name, moment(row.ends_at)]),
  ];
  return rows.length === 0
    ? html`<p class="empty">None that ends within 30 days.</p>`
    : table("Certificates and their ends", ["Certificate of", "Belongs to", "Ends"], rows);
}

function overviewPage(visit: Visit, overview: Overview, views: Part): PageContent {
  const items = attention(overview);
  const workers = overview.workers.map(({ id, seen_at: seen, alive, attempts_per_second: rate }) => [
    html`<code>${id}</code>`,
    alive ? badge("good", "alive") : badge("bad", "gone"),
    alive ? rate.toLocaleString("en") : "–",
    moment(seen),
  ]);
  const followers = overview.followers.map(({ region, kind, version, connected, behind }) => [
    region ?? "–",
    kind,
    version ?? "–",
    connected.toLocaleString("en"),
    behind === 0 ? badge("good", "all") : badge("bad", `all but ${behind.toLocaleString("en")}`),
  ]);
  return {
    title: "Overview",
    place: OVERVIEW,
    body: html`${section(
        "attention",
        "Needs attention",
        items.length === 0
          ? html`<p class="empty">Nothing.</p>`
          : html`<ul class="cards">
              ${items}
            </ul>`,
      )}
      <div id="state" hx-get="${OVERVIEW}" hx-select="#state" hx-trigger="every 5s" hx-swap="outerHTML">
        ${section("queues", "Queues", queueFacts(overview))} ${views}
        ${section("lag", "Tenants behind", lagTable(visit, overview))}
        ${section("endpoints", "Endpoints that fail", endpointTable(visit, overview))}
        ${section(
          "workers",
          "Workers",
          workers.length === 0
            ? html`<p class="empty">None.</p>`
            : table("Workers by id", ["Worker", "State", "Attempts per second", "Seen"], workers),
        )}
        ${section(
          "followers",
          "Edges, apis and hubs",
          table(
            "Processes that follow the revocations",
            ["Region", "Kind", "Version", "Connected", "Apply the last revocation"],
            followers,
          ),
        )}
      </div>
      ${section("certificates", "Certificates", certificateTable(overview))}`,
  };
}

type Row = readonly [Part, Part, Part, Part, Part];

function tenantsPage(query: string, rows: readonly Row[], problem?: string): PageContent {
  return {
    title: "Tenants",
    place: TENANTS,
    notice: problem === undefined ? undefined : { kind: "problem", text: problem },
    body: html`<form method="get" action="${TENANTS}" class="card filters" role="search" aria-label="Find">
        ${field("q", "Id, name, client id or URL", html`value="${query}" maxlength="256" spellcheck="false"`)}
        <div class="buttons">
          <button>Find</button>${query !== "" && html` <a href="${TENANTS}">Show all tenants</a>`}
        </div>
      </form>
      ${
        rows.length === 0
          ? html`<p class="empty">${query === "" ? "No tenants yet." : "Nothing matches."}</p>`
          : table("Results", ["Found", "Kind", "State", "Tenant", "Action"], rows)
      }`,
  };
}

function registerTenants(scope: SignetServer, { send }: PortalServices, { services }: ConsoleOptions): void {
  scope.get(
    "/operator/tenants",
    { config: CONFIG, schema: { hide: true, querystring: SearchQuery } },
    async (request, reply) => {
      const { visit, operator, id: requestId } = request;
      const text = (request.query.q ?? "").trim();
      if (text === "") {
        const tenants = await listTenants(services.pool, { before: null, limit: LISTED });
        const rows = tenants.map(({ id, name, state }): Row => [
          whyLink(id),
          "tenant",
          state,
          name,
          viewButton(visit, id, name),
        ]);
        return send(reply, visit, tenantsPage("", rows));
      }
      if (text.length < SEARCH_MIN) {
        return send(reply.code(400), visit, tenantsPage(text, [], "Enter three or more characters."));
      }
      const found = await findOnRecord(services, { text, limit: LISTED, operator, requestId });
      const rows = found.map((row): Row => [
        html`${foundLink(row)} <span class="muted break">${row.label}</span>`,
        row.kind,
        row.state ?? "–",
        row.tenant_name,
        viewButton(visit, row.tenant_id, row.tenant_name),
      ]);
      return send(reply, visit, tenantsPage(text, rows));
    },
  );
}

function registerViews(scope: SignetServer, { operators }: ConsoleOptions): void {
  scope.post(
    "/operator/tenants/:id/view",
    { config: CONFIG, schema: { hide: true, params: IdParams("tenant"), body: Form({}) } },
    async (request, reply) => {
      await operators.view(request.operatorSession, request.params.id, request.id);
      return await reply.redirect("/portal", SEE_OTHER);
    },
  );
  scope.post(
    "/operator/leave",
    { config: CONFIG, schema: { hide: true, body: Form({}) } },
    async (request, reply) => {
      await operators.leave(request.operatorSession);
      return await reply.redirect(TENANTS, SEE_OTHER);
    },
  );
}

function whyPage(visit: Visit, why: Awaited<ReturnType<typeof explainOnRecord>>): PageContent {
  return {
    title: `Why ${why.id}`,
    place: OVERVIEW,
    actions: html`${why.kind === "tenant" && targetLink(visit, "tenant", why.id)}
    ${viewButton(visit, why.tenant_id, why.tenant_name)}`,
    body: html`<p>${why.summary}</p>
      ${facts([
        ["Tenant", html`${why.tenant_name} ${whyLink(why.tenant_id)}`],
        ["State", why.state ?? "–"],
        ["Cause", html`<code>${why.cause}</code>`],
        ["Waits until", moment(why.waits_until)],
        ...temporalFact(
          "Workflows",
          workflowsOfUrl(visit.temporal, why.id),
          why.kind === "replay" ? "Open in Temporal" : "List in Temporal",
        ),
      ])}`,
  };
}

/** Registers the pages. */
export function registerConsolePages(
  scope: SignetServer,
  parts: PortalServices,
  options: ConsoleOptions,
): void {
  const { send } = parts;
  scope.get("/operator", { config: CONFIG, schema: { hide: true } }, async ({ visit }, reply) => {
    const now = options.services.clock.now();
    const [overview, views] = await Promise.all([options.overview(), temporalViews(options.temporal, now)]);
    return send(reply, visit, overviewPage(visit, overview, views));
  });
  scope.get(
    "/operator/why/:id",
    {
      config: CONFIG,
      schema: { hide: true, operationId: "explain", params: Closed({ id: ExplainedId }) },
    },
    async (request, reply) => {
      const why = await explainOnRecord(request, options.services, request.params.id);
      return send(reply, request.visit, whyPage(request.visit, why));
    },
  );
  registerTenants(scope, parts, options);
  registerViews(scope, options);
}

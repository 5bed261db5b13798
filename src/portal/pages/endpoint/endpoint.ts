/** One endpoint: its state, the next step, and all its actions. */
import { DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type {
  AttemptError,
  Endpoint,
  EndpointSecretVersion,
  EndpointSecretVersions,
} from "#lib/client/api-types.ts";
import type { SignetError } from "#domain/errors.ts";
import type { PortalServices } from "#portal/page-parts.ts";
import { html, type Part } from "#portal/html.ts";
import type { PageContent } from "#portal/layout.ts";
import {
  buttonForm,
  facts,
  jsonBlock,
  moment,
  stateBadge,
  table,
  temporalFact,
  textBlock,
  typedConfirmation,
} from "#portal/parts.ts";
import { workflowsOfUrl, workflowUrl } from "#temporal/views.ts";
import type { Visit } from "#portal/visit.ts";
import { authenticationText } from "./endpoint-authentication.ts";
import { failureText } from "../delivery-parts.ts";
import { deliveriesSection, newestDeliveries } from "./endpoint-deliveries.ts";
import { endpointBadge, ENDPOINTS, eventsText, healthText, illness, lastHourText } from "./endpoint-parts.ts";
import { readEndpoint, settingFacts } from "./endpoint-settings.ts";
import { rotationForm, signingFacts } from "./endpoint-signing.ts";
import { gradeSection, newestGrade } from "../grades.ts";

/** Notices for the last action, by the name in the URL. */
export const DONE = {
  changed: "The endpoint was changed.",
  disabled: "The endpoint is disabled: its events become dead letters.",
  enabled: "The endpoint is enabled: a signed ping was sent.",
  pinged: "A signed ping was sent.",
  activated: "The new secret now signs first.",
} as const;

export type Done = keyof typeof DONE;

interface Shown {
  readonly endpoint: Endpoint;
  /** Text of the metadata as the tenant wrote it. */
  readonly metadata: string | null;
  readonly secrets: EndpointSecretVersions;
}

/** Texts for failures that only pings have; the others are failures of attempts too. */
const PING_FAILURES: Readonly<Record<string, string>> = {
  status: "the answer was not 200",
  echo: "the answer did not repeat the challenge",
  limited: "too many pings went to that host",
};

function lastError({ verification }: Endpoint): Part {
  const { last_error: error, attempts } = verification;
  return error === null
    ? ""
    : html` The last of ${attempts} ${attempts === 1 ? "ping" : "pings"} failed:
      ${PING_FAILURES[error] ?? failureText(error as AttemptError)}.`;
}

const DISABLED_BECAUSE = {
  tenant: "You disabled this endpoint.",
  failing:
    "It was disabled because deliveries failed for too long. Fix the receiver, then enable the endpoint.",
  gone: "It was disabled because it answered a delivery with 410 Gone. Fix the receiver, then enable the endpoint.",
} as const;

const HEALTH_TEXTS = {
  failing: "Deliveries to this endpoint are failing.",
  degraded: "Some deliveries to this endpoint fail.",
} as const;

/** Renders the state and the next step. */
function standing(visit: Visit, endpoint: Endpoint): Part {
  const { state, disabled_reason: reason, verification } = endpoint;
  const path = `${ENDPOINTS}/${endpoint.id}`;
  const may = visit.can("webhooks:write");
  if (state === "ACTIVE") {
    const ill = illness(endpoint);
    const isTried = endpoint.health.status !== "unknown";
    const hour = lastHourText(endpoint);
    return html`${
      ill === undefined
        ? html`<p>
            ${isTried ? "Events are being delivered." : "It has received no event yet, apart from tests."}${" "}Verified
            ${moment(verification.verified_at)}.
          </p>`
        : html`<p><strong>${HEALTH_TEXTS[ill]}</strong> ${healthText(endpoint)}</p>`
    }
    ${hour !== undefined && html`<p class="muted">${hour}.</p>`}
    ${
      may &&
      html`<div class="buttons">
        ${buttonForm(visit, { action: `${path}/test`, label: "Send test event", kind: "primary" })}
        <a class="button" href="${path}/test-event">Send a custom event</a>
        ${buttonForm(visit, { action: `${path}/disable`, label: "Disable" })}
      </div>`
    }`;
  }
  if (state === "PENDING") {
    const next = verification.next_attempt_at;
    return html`<p>
        <strong>Waiting for your 200.</strong> A signed ping was sent. No events are sent until this URL
        answers a ping with 200 within 5 seconds.${lastError(endpoint)}
        ${next !== null && html`The next ping is due ${moment(next)}.`}
      </p>
      ${
        may &&
        html`<div class="buttons">
          ${buttonForm(visit, { action: `${path}/verify`, label: "Verify now", kind: "primary" })}
          ${buttonForm(visit, { action: `${path}/disable`, label: "Disable" })}
        </div>`
      }`;
  }
  return html`<p>
      ${DISABLED_BECAUSE[reason ?? "tenant"]} Its events become dead letters, which you can replay for
      ${DEAD_LETTER_DAYS} days.
    </p>
    ${
      may &&
      html`<div class="buttons">
        ${buttonForm(visit, { action: `${path}/enable`, label: "Enable", kind: "primary" })}
      </div>`
    }`;
}

/** Renders the state. While it is expected to change, the section updates itself. */
export function stateSection(visit: Visit, endpoint: Endpoint): Part {
  const path = `${ENDPOINTS}/${endpoint.id}`;
  const isUnhealthy = illness(endpoint) !== undefined;
  const polling =
    (endpoint.state === "PENDING" || isUnhealthy) &&
    html`hx-get="${path}" hx-select="#state" hx-trigger="every ${isUnhealthy ? 10 : 3}s" hx-swap="outerHTML"`;
  return html`<section id="state" aria-labelledby="state-heading" aria-live="polite" ${polling}>
    <h2 id="state-heading">State ${endpointBadge(endpoint)}</h2>
    ${standing(visit, endpoint)}
  </section>`;
}

function versionRow({ version, state, fingerprint, created_at, signs_until }: EndpointSecretVersion): Part[] {
  return [
    String(version),
    stateBadge(state),
    html`<code>${fingerprint}</code>`,
    moment(created_at),
    moment(signs_until),
  ];
}

function secretSection(visit: Visit, { endpoint, secrets }: Shown): Part {
  const path = `${ENDPOINTS}/${endpoint.id}/secret`;
  const next = secrets.data.some(({ state }) => state === "NEXT");
  const shown = secrets.data.filter(({ state }) => state !== "RETIRED");
  return html`<section aria-labelledby="secret-heading">
    <h2 id="secret-heading">Signing secret</h2>
    ${table(
      "Versions of the signing secret",
      ["Version", "State", "Fingerprint", "Created", "Signs until"],
      shown.map(versionRow),
    )}
    ${signingFacts(secrets)}
    ${
      visit.can("webhooks:write") &&
      html`<p class="muted">
          A rotation creates a new secret and shows it once. Both secrets sign during the overlap, so that you
          can update your receiver.
        </p>
        <div class="buttons">
          ${next && buttonForm(visit, { action: `${path}/activate`, label: "Use the new secret now" })}
          ${rotationForm(visit, `${path}/rotate`, secrets)}
        </div>
        <p><a href="${ENDPOINTS}/${endpoint.id}/signing">Change signatures and rotation</a></p>`
    }
  </section>`;
}

function headersText(headers: Endpoint["headers"]): Part {
  const all = Object.entries(headers);
  return all.length === 0
    ? "none"
    : all.map(([name, value]) => html`<div><code>${name}: ${value}</code></div>`);
}

function settingsSection(visit: Visit, { endpoint, metadata }: Shown): Part {
  const { filter, headers, authentication } = endpoint;
  return html`<section aria-labelledby="settings-heading">
    <h2 id="settings-heading">Settings</h2>
    ${facts([
      ["Events", eventsText(endpoint)],
      ...settingFacts(endpoint, true),
      ["Id", html`<code>${endpoint.id}</code>`],
      ["Added", moment(endpoint.created_at)],
      ["Changed", moment(endpoint.updated_at)],
      ["Authentication to the receiver", authenticationText(authentication)],
      ["Custom headers", headersText(headers)],
      ...settingFacts(endpoint, false),
      ...temporalFact(
        "Verification, for operators",
        workflowUrl(visit.temporal, endpoint.verification.workflow_id),
      ),
      ...temporalFact(
        "Workflows, for operators",
        workflowsOfUrl(visit.temporal, endpoint.id),
        "List in Temporal",
      ),
    ])}
    ${
      filter !== null &&
      html`<h3>Filter</h3>
        ${jsonBlock("Filter", filter)}`
    }
    ${
      metadata !== null &&
      html`<h3>Metadata</h3>
        ${textBlock("Metadata", metadata)}`
    }
  </section>`;
}

function deletion(visit: Visit, { id }: Endpoint): Part {
  return html`<section aria-labelledby="delete-heading">
    <h2 id="delete-heading">Delete</h2>
    ${typedConfirmation(visit, {
      action: `${ENDPOINTS}/${id}/delete`,
      label: "Delete endpoint",
      type: "delete",
      id: "confirm-delete",
      warning:
        "Its secrets are erased immediately, and pending deliveries are cancelled. This cannot be undone.",
    })}
  </section>`;
}

/** Renders an endpoint, with the result of the last action. */
export async function endpointPage(
  visit: Visit,
  id: string,
  happened: { readonly done?: Done | undefined; readonly error?: SignetError | undefined } = {},
): Promise<PageContent> {
  const [{ endpoint, metadata }, secrets, deliveries, grade] = await Promise.all([
    readEndpoint(visit, id),
    visit.api.endpoints.secrets.list(id),
    newestDeliveries(visit, id),
    newestGrade(visit, id),
  ]);
  const shown = { endpoint, metadata, secrets };
  const { done, error } = happened;
  const doneNotice = done && ({ kind: "done", text: DONE[done] } as const);
  return {
    title: endpoint.url,
    place: ENDPOINTS,
    actions: visit.can("webhooks:write") && html`<a class="button" href="${ENDPOINTS}/${id}/edit">Edit</a>`,
    notice: error === undefined ? doneNotice : { kind: "problem", text: error.message },
    body: html`${stateSection(visit, endpoint)} ${deliveriesSection(visit, endpoint, deliveries)}
    ${settingsSection(visit, shown)} ${secretSection(visit, shown)}
    ${visit.can("webhooks:write") && [gradeSection(endpoint, grade), deletion(visit, endpoint)]}`,
  };
}

export function registerEndpointPage(scope: SignetServer, { send }: PortalServices): void {
  scope.get(
    "/endpoints/:id",
    {
      config: { portal: ["webhooks:read"] },
      schema: {
        hide: true,
        params: IdParams("endpoint"),
        querystring: Closed({ done: Type.Optional(OneOf(Object.keys(DONE) as Done[])) }),
      },
    },
    async ({ visit, params: { id }, query: { done } }, reply) =>
      send(reply, visit, await endpointPage(visit, id, { done })),
  );
}

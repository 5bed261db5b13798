/** Sends a test event to one endpoint: a fixed event, or a custom event that starts from an example of its type. */
import { isReservedType } from "#domain/own-event-types.ts";
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "#http/common.ts";
import { EVENT_TYPE } from "#api/schemas/endpoints.ts";
import type { SignetServer } from "#http/types.ts";
import type { EventType, TestEvent } from "#lib/client/api-types.ts";
import { type SignetError, validationFailed } from "#domain/errors.ts";
import { SEE_OTHER } from "../context.ts";
import { areaField, lineField } from "../fields.ts";
import { Form, Line } from "../forms.ts";
import { html } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { facts, formFields } from "../parts.ts";
import { FieldErrors, refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { DELIVERIES } from "./delivery-parts.ts";
import { endpointPage } from "./endpoint/endpoint.ts";
import { endpointFact, ENDPOINTS } from "./endpoint/endpoint-parts.ts";
import { jsonMember } from "./endpoint/endpoint-settings.ts";

const WRITING = { portal: ["webhooks:read", "webhooks:write"] };
const TYPE_MAX = 128;
/** In characters, so that a page that shows the data again after an error stays below 100 KB. */
const DATA_MAX = 16_384;
/** Number of suggested event types, so that a page stays below 100 KB. */
const OFFERED = 50;
const TEST_TYPE = "endpoint.test";
const TEST_DATA = { message: "This is a test event." };

interface EventFields {
  readonly type: string;
  readonly data: string;
}

const pretty = (value: unknown): string => JSON.stringify(value, undefined, 2);

async function catalogue({ api }: Visit): Promise<readonly EventType[]> {
  return (await api.eventTypes.list({ limit: OFFERED }).page()).data;
}

/** Returns the catalogue's example for a type, or an empty object. */
async function exampleOf({ api }: Visit, type: string): Promise<string> {
  if (type === TEST_TYPE) {
    return pretty(TEST_DATA);
  }
  // Never put an invalid type name into a path.
  const asked = new RegExp(EVENT_TYPE).test(type) ? await refused(api.eventTypes.get(type)) : undefined;
  const [example] = asked !== undefined && "answer" in asked ? asked.answer.examples : [];
  return example === undefined ? "{}" : pretty(example);
}

async function eventPage(
  visit: Visit,
  id: string,
  { fields, error }: { readonly fields?: EventFields; readonly error?: SignetError },
): Promise<PageContent> {
  const [endpoint, types] = await Promise.all([visit.api.endpoints.get(id), catalogue(visit)]);
  // Prefer a type that the endpoint subscribes to and that has an example.
  const takes = (name: string): boolean => endpoint.events.includes("*") || endpoint.events.includes(name);
  const sendable = (name: string): boolean => name !== "*" && !isReservedType(name);
  const first = types.find(
    ({ name, examples }) => takes(name) && sendable(name) && examples.length > 0,
  )?.name;
  const chosen = first ?? endpoint.events.find(sendable) ?? TEST_TYPE;
  const { type, data } = fields ?? { type: chosen, data: await exampleOf(visit, chosen) };
  const errors = new FieldErrors(error);
  const offered = [...endpoint.events, ...types.map(({ name }) => name)].filter(sendable);
  const names = new Set([TEST_TYPE, ...offered]);
  return {
    title: "Send a test event",
    place: ENDPOINTS,
    notice: errors.notice,
    body: html`<form method="post" action="${ENDPOINTS}/${id}/test-event" class="stack">
      ${formFields(visit)} ${facts([endpointFact(endpoint)])}
      <p class="muted">
        The event goes only to this endpoint, and is signed and retried like every event. The endpoint does
        not have to subscribe to its type. At most 60 per minute.
      </p>
      ${lineField(
        {
          name: "type",
          label: "Event type",
          value: type,
          attributes: html`list="types" required maxlength="${TYPE_MAX}" autocomplete="off" spellcheck="false"`,
        },
        errors,
      )}
      <datalist id="types">${[...names].map((name) => html`<option value="${name}"></option>`)}</datalist>
      <p><button name="step" value="example">Use an example of this type</button></p>
      ${areaField(
        {
          name: "data",
          label: "Data",
          value: data,
          help: "A JSON object, sent unchanged. At most 16 KiB; the API accepts 256 KiB.",
          attributes: html`rows="14" maxlength="${DATA_MAX}" class="code" autocomplete="off"`,
        },
        errors,
      )}
      <div class="buttons">
        <button class="primary" name="step" value="send">Send event</button>
        <a class="button" href="${ENDPOINTS}/${id}">Cancel</a>
      </div>
    </form>`,
  };
}

/** @throws SignetError VALIDATION_FAILED if the data is not JSON */
function eventBody({ type, data }: EventFields): TestEvent {
  const { json, problem } = jsonMember("data", data);
  if (json === null || problem !== undefined) {
    throw validationFailed([problem ?? { pointer: "/data", code: "json", detail: "is not JSON" }]);
  }
  return { type: type.trim(), data: json };
}

/** Registers the button that sends the fixed test event. */
function registerGreeting(scope: SignetServer, { send }: PortalServices): void {
  scope.post(
    "/endpoints/:id/test",
    { config: WRITING, schema: { hide: true, params: IdParams("endpoint"), body: Form({}) } },
    async ({ visit, params: { id }, body: { once } }, reply) => {
      const sent = await refused(visit.apiFor({ once }).endpoints.test(id));
      if ("error" in sent) {
        const page = await endpointPage(visit, id, { error: sent.error });
        return send(reply.code(sent.error.status), visit, page);
      }
      return await reply.redirect(`${DELIVERIES}/${sent.answer.id}?done=tested`, SEE_OTHER);
    },
  );
}

export function registerTestEventPages(scope: SignetServer, parts: PortalServices): void {
  const { send } = parts;
  const params = IdParams("endpoint");
  registerGreeting(scope, parts);
  scope.get(
    "/endpoints/:id/test-event",
    { config: WRITING, schema: { hide: true, params, querystring: Closed({}) } },
    async ({ visit, params: { id } }, reply) => send(reply, visit, await eventPage(visit, id, {})),
  );
  scope.post(
    "/endpoints/:id/test-event",
    {
      config: WRITING,
      schema: {
        hide: true,
        params,
        body: Form({
          step: Type.Optional(OneOf(["example", "send"])),
          type: Line(TYPE_MAX),
          data: Line(DATA_MAX),
        }),
      },
    },
    async ({ visit, params: { id }, body: { step, type, data, once } }, reply) => {
      if (step === "example") {
        const fields = { type, data: await exampleOf(visit, type.trim()) };
        return send(reply, visit, await eventPage(visit, id, { fields }));
      }
      const sent = await refused(
        (async () => await visit.apiFor({ once }).endpoints.test(id, eventBody({ type, data })))(),
      );
      if ("error" in sent) {
        const page = await eventPage(visit, id, { fields: { type, data }, error: sent.error });
        return send(reply.code(sent.error.status), visit, page);
      }
      return await reply.redirect(`${DELIVERIES}/${sent.answer.id}?done=tested`, SEE_OTHER);
    },
  );
}

/** The form of an endpoint's settings, and its page. */
import type { JsonText } from "../../../api/in-process.ts";
import type { Authentication, EventType } from "../../../lib/client/api-types.ts";
import type { SignetError } from "../../../domain/errors.ts";
import type { ListAnswer } from "../../context.ts";
import { areaField, lineField } from "../../fields.ts";
import { Form, Line } from "../../forms.ts";
import { html, type Part } from "../../html.ts";
import type { PageContent } from "../../layout.ts";
import { formFields } from "../../parts.ts";
import { fieldErrors, type FieldErrors, refused } from "../../problems.ts";
import { addressAgain, textAgain } from "../../typed-again.ts";
import type { Visit } from "../../visit.ts";
import {
  AUTHENTICATION_FIELDS,
  authenticationBody,
  authenticationFields,
  type AuthenticationFields,
  authenticationRefusal,
} from "./endpoint-authentication.ts";
import { ENDPOINTS, getEndpoint } from "./endpoint-parts.ts";
import {
  hasCollapsed,
  settingsAgain,
  settingsBody,
  SETTINGS_FIELDS,
  settingsFields,
  type SettingsFields,
} from "./endpoint-settings.ts";

/** Field values as typed. */
export interface EndpointFields extends SettingsFields, AuthenticationFields {
  readonly url: string;
  readonly events: string;
}

export const EndpointForm = Form({
  url: Line(2_048),
  events: Line(8_192),
  ...SETTINGS_FIELDS,
  ...AUTHENTICATION_FIELDS,
});

/**
 * Converts a form to the API's body. Event types are separated by white space or commas.
 *
 * @throws SignetError VALIDATION_FAILED if a field is malformed
 */
function endpointBody(fields: EndpointFields, isNew: boolean): JsonText {
  const { url, events } = fields;
  const types = events.split(/[\s,]+/).filter((type) => type !== "");
  const authentication = authenticationBody(fields);
  const body = {
    url: url.trim(),
    events: types.length === 0 ? ["*"] : types,
    ...(authentication === undefined ? {} : { authentication }),
  };
  return settingsBody(fields, body, isNew);
}

/** Sends a form to the API; returns the answer, or an error with the form's field names. */
export async function sendEndpoint<Answer>(
  fields: EndpointFields,
  isNew: boolean,
  send: (body: JsonText) => Promise<Answer>,
): Promise<{ readonly answer: Answer } | { readonly error: SignetError }> {
  const sent = await refused((async () => await send(endpointBody(fields, isNew)))());
  return "error" in sent ? { error: authenticationRefusal(sent.error, fields) } : sent;
}

/** Data for the form. */
interface FilledForm {
  readonly values: EndpointFields;
  readonly errors: FieldErrors;
  readonly types: readonly string[];
  /** Current authentication of the endpoint. */
  readonly authentication: Authentication | null;
}

/** Checks whether the collapsed part has values or errors to show. */
function hasMore({ values, errors, authentication }: FilledForm): boolean {
  const chosen = values.authentication ?? "none";
  return (
    hasCollapsed(values, errors) ||
    chosen !== "none" ||
    authentication !== null ||
    Object.keys(AUTHENTICATION_FIELDS).some((name) => errors.has(name))
  );
}

/** Renders the fields and their errors. */
function endpointFields(form: FilledForm): Part {
  const { values, errors, types, authentication } = form;
  const known = types.map((type, index) => html`${index > 0 && ", "}<code>${type}</code>`);
  const url = {
    name: "url",
    label: "Target URL",
    value: values.url,
    attributes: html`type="url" inputmode="url" required maxlength="2048" autocomplete="off"
    placeholder="https://example.com/hooks"`,
  };
  const events = {
    name: "events",
    label: "Event types",
    value: values.events,
    attributes: html`rows="3" maxlength="8192"`,
    help: html`One per line. Leave empty for all. ${known.length > 0 && html`Known: ${known}.`}`,
  };
  return html`${lineField(url, errors)} ${areaField(events, errors)} ${settingsFields(values, errors, true)}
    <details ${hasMore(form) && html`open`}>
      <summary>Filter, headers, authentication and more</summary>
      ${settingsFields(values, errors, false)} ${authenticationFields(values, errors, authentication)}
    </details>`;
}

/** Returns names of the tenant's event types to suggest. */
async function knownTypes({ api }: Visit): Promise<string[]> {
  const { data } = await api.get<ListAnswer<EventType>>("/v1/webhooks/event-types?limit=20");
  return data.map(({ name }) => name);
}

async function authenticationOf(visit: Visit, id: string): Promise<Authentication | null> {
  return (await getEndpoint(visit, id)).authentication;
}

/**
 * Returns the values to show again after an error, without secrets. Filter and metadata stay unchanged, because everyone
 * who may read the endpoint sees them.
 */
function typedAgain(values: EndpointFields): EndpointFields {
  return {
    ...values,
    url: addressAgain(values.url),
    events: textAgain(values.events),
    ...settingsAgain(values),
  };
}

/** Differences between the pages for a new and an existing endpoint. */
interface Purpose {
  readonly title: string;
  /** Says what happens after saving. */
  readonly note: string;
  readonly button: string;
  /** Target of the form; `back` is the target of Cancel. */
  readonly action: string;
  readonly back: string;
}

const ADD: Purpose = {
  title: "Add endpoint",
  note: "A signed ping is sent immediately. If the answer is 200 within 5 seconds, the endpoint becomes active.",
  button: "Add endpoint",
  action: `${ENDPOINTS}/new`,
  back: ENDPOINTS,
};

const edit = (id: string): Purpose => ({
  title: "Edit endpoint",
  note: "If you change the target URL, the endpoint must answer a new ping before it receives events.",
  button: "Save",
  action: `${ENDPOINTS}/${id}/edit`,
  back: `${ENDPOINTS}/${id}`,
});

/**
 * Renders the page of the form.
 *
 * @param form.id endpoint to edit; undefined for a new one
 * @param form.error the API's error for these values
 */
export async function endpointFormPage(
  visit: Visit,
  form: { readonly id?: string; readonly values: EndpointFields; readonly error?: SignetError },
): Promise<PageContent> {
  const { title, note, button, action, back } = form.id === undefined ? ADD : edit(form.id);
  const errors = fieldErrors(form.error);
  const values = form.error === undefined ? form.values : typedAgain(form.values);
  const [types, authentication] = await Promise.all([
    knownTypes(visit),
    form.id === undefined ? null : authenticationOf(visit, form.id),
  ]);
  return {
    title,
    place: ENDPOINTS,
    notice: errors.notice,
    body: html`<form method="post" action="${action}" class="stack">
      ${formFields(visit)} ${endpointFields({ values, errors, types, authentication })}
      <p class="muted">${note}</p>
      <div class="buttons">
        <button class="primary">${button}</button>
        <a class="button" href="${back}">Cancel</a>
      </div>
    </form>`,
  };
}

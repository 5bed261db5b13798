/** The form of an endpoint's settings, and its page. */
import type { Authentication, NewEndpoint } from "#lib/client/api-types.ts";
import { type FieldProblem, type SignetError, validationFailed } from "#domain/errors.ts";
import type { PortalOptions } from "#portal/context.ts";
import { lineField } from "#portal/fields.ts";
import { Form, Line } from "#portal/forms.ts";
import { html, type Part } from "#portal/html.ts";
import type { PageContent } from "#portal/layout.ts";
import { formFields } from "#portal/parts.ts";
import { FieldErrors, refused } from "#portal/problems.ts";
import { addressAgain, textAgain } from "#portal/typed-again.ts";
import type { Visit } from "#portal/visit.ts";
import {
  AUTHENTICATION_FIELDS,
  authenticationBody,
  authenticationFields,
  type AuthenticationFields,
  authenticationProblem,
  authenticationRefusal,
} from "./endpoint-authentication.ts";
import {
  EVENTS_FIELDS,
  eventsField,
  type EventsFields,
  eventsOf,
  eventsProblem,
  offeredTypes,
  type OfferedType,
} from "./endpoint-events.ts";
import { ENDPOINTS } from "./endpoint-parts.ts";
import {
  hasCollapsed,
  settingsAgain,
  settingsBody,
  SETTINGS_FIELDS,
  settingsFields,
  type SettingsFields,
} from "./endpoint-settings.ts";

/** Field values as typed. */
export interface EndpointFields extends SettingsFields, AuthenticationFields, EventsFields {
  readonly url: string;
}

export const EndpointForm = Form({
  url: Line(2_048),
  ...EVENTS_FIELDS,
  ...SETTINGS_FIELDS,
  ...AUTHENTICATION_FIELDS,
});

/**
 * Converts a form to the API's body. A malformed field adds a problem and is sent as text, which the API rejects: its
 * answer then has the problems of the other fields.
 */
function endpointBody(fields: EndpointFields, isNew: boolean, problems: FieldProblem[]): NewEndpoint {
  const typed = [authenticationProblem(fields), eventsProblem(fields)];
  problems.push(...typed.filter((problem) => problem !== undefined));
  const authentication = authenticationBody(fields);
  return {
    url: fields.url.trim(),
    events: eventsOf(fields),
    ...(authentication === undefined ? {} : { authentication }),
    ...settingsBody(fields, { isNew, problems }),
  };
}

const memberOf = ({ pointer }: FieldProblem): string => pointer.split("/")[1] ?? "";

/** Returns the problems of all fields: those found here, those of the API, and that of the URL. */
function allProblems(
  fields: EndpointFields,
  refusal: SignetError,
  found: readonly FieldProblem[],
  urlProblem: PortalOptions["urlProblem"],
): SignetError {
  const error = authenticationRefusal(refusal, fields);
  if (error.code !== "VALIDATION_FAILED") {
    return error;
  }
  const listed = (error.extensions["errors"] ?? []) as readonly FieldProblem[];
  const members = new Set(found.map(memberOf));
  const ofAuthentication = found.some(({ pointer }) => pointer.startsWith("/auth_"));
  const others = listed.filter((problem) => {
    const member = memberOf(problem);
    return !members.has(member) && !(ofAuthentication && member === "authentication");
  });
  const all = [...found, ...others];
  const url = all.some((problem) => memberOf(problem) === "url") ? undefined : urlProblem(fields.url.trim());
  return validationFailed([
    ...(url === undefined ? [] : [{ pointer: "/url", code: "forbidden", detail: url }]),
    ...all,
  ]);
}

/** Sends a form to the API; returns the answer, or an error with the problems of all fields by the form's names. */
export async function sendEndpoint<Answer>(
  fields: EndpointFields,
  { isNew, urlProblem }: { readonly isNew: boolean; readonly urlProblem: PortalOptions["urlProblem"] },
  send: (body: NewEndpoint) => Promise<Answer>,
): Promise<{ readonly answer: Answer } | { readonly error: SignetError }> {
  const problems: FieldProblem[] = [];
  const sent = await refused(send(endpointBody(fields, isNew, problems)));
  return "error" in sent ? { error: allProblems(fields, sent.error, problems, urlProblem) } : sent;
}

/** Data for the form. */
interface FilledForm {
  readonly values: EndpointFields;
  readonly errors: FieldErrors;
  readonly types: readonly OfferedType[];
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
  const url = {
    name: "url",
    label: "Target URL",
    value: values.url,
    attributes: html`type="url" inputmode="url" required maxlength="2048" autocomplete="off"
    placeholder="https://example.com/hooks"`,
  };
  return html`${lineField(url, errors)} ${eventsField(values, errors, types)}
    ${settingsFields(values, errors, true)}
    <details ${hasMore(form) && html`open`}>
      <summary>Filter, headers, authentication and more</summary>
      ${settingsFields(values, errors, false)} ${authenticationFields(values, errors, authentication)}
    </details>`;
}

async function authenticationOf(visit: Visit, id: string): Promise<Authentication | null> {
  return (await visit.api.endpoints.get(id)).authentication;
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
  const errors = new FieldErrors(form.error);
  const values = form.error === undefined ? form.values : typedAgain(form.values);
  const [types, authentication] = await Promise.all([
    offeredTypes(visit),
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

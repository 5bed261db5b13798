/** The form of an endpoint's settings. */
import type { EventType } from "../../client/event-types.ts";
import type { ListAnswer } from "../context.ts";
import { Form, Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { FieldErrors } from "../problems.ts";
import type { Visit } from "../visit.ts";

/** Field values as they were typed. */
export interface EndpointFields {
  readonly url: string;
  readonly events: string;
  readonly description: string;
}

export const EndpointForm = Form({ url: Line(2_048), events: Line(8_192), description: Line(1_024) });

/** What the API takes, out of a form. Event types stand on lines or between commas. */
export function endpointBody({ url, events, description }: EndpointFields) {
  const types = events.split(/[\s,]+/).filter((type) => type !== "");
  return {
    url: url.trim(),
    events: types.length === 0 ? ["*"] : types,
    description: description.trim() === "" ? null : description.trim(),
  };
}

/** The fields of an endpoint, with what is wrong with them. */
export function endpointFields(values: EndpointFields, errors: FieldErrors, types: readonly string[]): Part {
  return html`<div class="field">
      <label for="url">Target URL</label>
      <input
        id="url"
        name="url"
        type="url"
        inputmode="url"
        required
        maxlength="2048"
        value="${values.url}"
        autocomplete="off"
        placeholder="https://example.com/hooks"
        ${errors.attributes("url")}
      />
      ${errors.text("url")}
    </div>
    <div class="field">
      <label for="events">Event types</label>
      <textarea
        id="events"
        name="events"
        rows="3"
        maxlength="8192"
        spellcheck="false"
        ${errors.attributes("events", "events-help")}
      >
${values.events}</textarea>
      <p class="muted" id="events-help">
        One on each line; leave it empty for all.
        ${types.length > 0 && html`Known: ${types.map((type, index) => html`${index > 0 && ", "}<code>${type}</code>`)}.`}
      </p>
      ${errors.text("events")}
    </div>
    <div class="field">
      <label for="description">Description <span class="muted">(optional)</span></label>
      <input
        id="description"
        name="description"
        maxlength="1024"
        value="${values.description}"
        ${errors.attributes("description")}
      />
      ${errors.text("description")}
    </div>`;
}

/** Names of the tenant's event types, to choose from. */
export async function knownTypes({ api }: Visit): Promise<string[]> {
  const { data } = await api.get<ListAnswer<EventType>>("/v1/webhooks/event-types?limit=20");
  return data.map(({ name }) => name);
}

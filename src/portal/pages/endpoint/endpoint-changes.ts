/** Actions on an endpoint; each is a form that redirects to the endpoint's page. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { IdParams } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { Endpoint, RotatedEndpointSecret } from "#lib/client/api-types.ts";
import type { Endpoints } from "#lib/client/resources/endpoints.ts";
import { validationFailed } from "#domain/errors.ts";
import { SEE_OTHER } from "#portal/context.ts";
import type { PortalServices } from "#portal/page-parts.ts";
import { Form, Line } from "#portal/forms.ts";
import { html } from "#portal/html.ts";
import type { PageContent } from "#portal/layout.ts";
import { refused } from "#portal/problems.ts";
import { type Done, endpointPage } from "./endpoint.ts";
import { EndpointForm, endpointFormPage, sendEndpoint } from "./endpoint-form.ts";
import { ENDPOINTS } from "./endpoint-parts.ts";
import { registerEndpointSigning, ROTATION_FIELDS } from "./endpoint-signing.ts";
import { readEndpoint, settingsOf } from "./endpoint-settings.ts";
import { receiverSection } from "./receiver-code.ts";

const WRITING = { portal: ["webhooks:read", "webhooks:write"] };
const PARAMS = IdParams("endpoint");

/** Buttons: the form's path, the call of the API, and the notice afterwards. */
const STEPS: readonly {
  readonly form: string;
  readonly take: (endpoints: Endpoints, id: string) => Promise<unknown>;
  readonly done: Done;
}[] = [
  { form: "verify", take: async (endpoints, id) => await endpoints.verify(id), done: "pinged" },
  { form: "enable", take: async (endpoints, id) => await endpoints.enable(id), done: "enabled" },
  { form: "disable", take: async (endpoints, id) => await endpoints.disable(id), done: "disabled" },
  { form: "secret/activate", take: async ({ secrets }, id) => await secrets.activate(id), done: "activated" },
];

function registerSteps(scope: SignetServer, { send }: PortalServices): void {
  for (const { form, take, done } of STEPS) {
    scope.post(
      `/endpoints/:id/${form}`,
      { config: WRITING, schema: { hide: true, params: PARAMS, body: Form({}) } },
      async ({ visit, params: { id }, body: { once } }, reply) => {
        const taken = await refused(take(visit.apiFor({ once }).endpoints, id));
        if ("error" in taken) {
          const page = await endpointPage(visit, id, { error: taken.error });
          return send(reply.code(taken.error.status), visit, page);
        }
        return await reply.redirect(`${ENDPOINTS}/${id}?done=${done}`, SEE_OTHER);
      },
    );
  }
}

function rotatedPage(
  { id, url }: Pick<Endpoint, "id" | "url">,
  { secret, version, state }: RotatedEndpointSecret,
): PageContent {
  const until =
    state === "NEXT"
      ? "Give it to your receiver now. Both secrets sign during the overlap that you chose. Then the new one signs first, and the old one signs for the same time again."
      : "Give it to your receiver immediately: all earlier secrets have stopped signing.";
  return {
    title: "New signing secret",
    place: ENDPOINTS,
    body: html`<p>This is version ${version} of the secret. It is shown only once. ${until}</p>
      <p class="secret"><code data-copy="">${secret}</code></p>
      ${receiverSection({ secret, url })}
      <p><a class="button primary" href="${ENDPOINTS}/${id}">Back to the endpoint</a></p>`,
  };
}

function registerRotation(scope: SignetServer, { send }: PortalServices): void {
  scope.post(
    "/endpoints/:id/secret/rotate",
    { config: WRITING, schema: { hide: true, params: PARAMS, body: Form(ROTATION_FIELDS) } },
    async ({ visit, params: { id }, body: { once, overlap } }, reply) => {
      const choice = overlap === undefined ? {} : { overlap_seconds: Number(overlap) };
      const rotated = await refused(visit.apiFor({ once }).endpoints.secrets.rotate(id, choice));
      if ("error" in rotated) {
        const page = await endpointPage(visit, id, { error: rotated.error });
        return send(reply.code(rotated.error.status), visit, page);
      }
      return send(reply, visit, rotatedPage(await visit.api.endpoints.get(id), rotated.answer));
    },
  );
}

function registerEditing(scope: SignetServer, { send, urlProblem }: PortalServices): void {
  scope.get(
    "/endpoints/:id/edit",
    { config: WRITING, schema: { hide: true, params: PARAMS } },
    async ({ visit, params: { id } }, reply) => {
      const { endpoint, metadata } = await readEndpoint(visit, id);
      const values = {
        ...settingsOf(endpoint, metadata),
        url: endpoint.url,
        events: endpoint.events.includes("*") ? "" : endpoint.events.join("\n"),
      };
      return send(reply, visit, await endpointFormPage(visit, { id, values }));
    },
  );
  scope.post(
    "/endpoints/:id/edit",
    { config: WRITING, schema: { hide: true, params: PARAMS, body: EndpointForm } },
    async ({ visit, params: { id }, body: values }, reply) => {
      const saved = await sendEndpoint(
        values,
        { isNew: false, urlProblem },
        async (sent) => await visit.api.endpoints.update(id, sent),
      );
      if ("error" in saved) {
        const page = await endpointFormPage(visit, { id, values, error: saved.error });
        return send(reply.code(saved.error.status), visit, page);
      }
      return await reply.redirect(`${ENDPOINTS}/${id}?done=changed`, SEE_OTHER);
    },
  );
}

async function deleteEndpoint(
  {
    visit,
    params,
    body,
  }: Pick<FastifyRequest, "visit"> & { params: { id: string }; body: { confirm: string } },
  reply: FastifyReply,
  { send }: PortalServices,
): Promise<FastifyReply> {
  if (body.confirm.trim() !== "delete") {
    const error = validationFailed([
      { pointer: "/confirm", code: "mismatch", detail: "must be the word delete" },
    ]);
    return send(reply.code(error.status), visit, await endpointPage(visit, params.id, { error }));
  }
  await visit.api.endpoints.delete(params.id);
  return await reply.redirect(`${ENDPOINTS}?done=deleted`, SEE_OTHER);
}

export function registerEndpointChanges(scope: SignetServer, parts: PortalServices): void {
  registerSteps(scope, parts);
  registerRotation(scope, parts);
  registerEndpointSigning(scope, parts);
  registerEditing(scope, parts);
  scope.post(
    "/endpoints/:id/delete",
    { config: WRITING, schema: { hide: true, params: PARAMS, body: Form({ confirm: Line(64) }) } },
    async (request, reply) => await deleteEndpoint(request, reply, parts),
  );
}

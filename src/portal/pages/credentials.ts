/** Credentials: their scopes, secret versions, rotation and revocation. */
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import type {
  CreatedCredential,
  Credential,
  CredentialDetails,
  Revocation,
  SecretVersion,
} from "../../lib/client/api-types.ts";
import { type SignetError, validationFailed } from "../../domain/errors.ts";
import type { ListAnswer } from "../context.ts";
import type { PortalParts } from "../page-parts.ts";
import { areaField, lineField } from "../fields.ts";
import { Form, Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import { badge, facts, formFields, moment, nextPage, table, timeAgo, typedConfirmation } from "../parts.ts";
import { fieldErrors, refused } from "../problems.ts";
import { textAgain } from "../typed-again.ts";
import type { Visit } from "../visit.ts";
import { entryLink } from "./compliance-parts.ts";

const PLACE = "/portal/credentials";
const WRITING = { portal: ["credentials:read", "credentials:write"] };
const NAME_MAX = 128;
const URI_MAX = 2_048;
const THUMBPRINTS_MAX = 1_024;

/** Options for the overlap of a rotation, in seconds. */
const OVERLAPS = [
  ["86400", "for a day"],
  ["3600", "for an hour"],
  ["604800", "for seven days"],
  ["0", "not at all, because it was disclosed"],
] as const;

/** Names and SHA-256 thumbprints as typed, one thumbprint per line. */
interface NewFields {
  readonly name: string;
  readonly san_uri: string;
  readonly certificate_thumbprints: string;
}

function stateBadge({ state, overdue }: Pick<Credential, "state" | "overdue">): Part {
  if (state === "REVOKED") {
    return badge("bad", "revoked");
  }
  return overdue ? badge("wait", "rotation overdue") : badge("good", "active");
}

function listPage(visit: Visit, { data, next_cursor: next }: ListAnswer<Credential>): PageContent {
  return {
    title: "Credentials",
    place: PLACE,
    actions:
      visit.can("credentials:write") &&
      html`<a class="button primary" href="${PLACE}/new">Create credential</a>`,
    body: html`<section>
        ${table(
          "Credentials",
          ["Client id", "State", "Name", "Last used", "Created", "Next rotation"],
          data.map((credential) => [
            html`<a class="name" href="${PLACE}/${credential.id}">${credential.client_id}</a>`,
            stateBadge(credential),
            credential.name === null ? "–" : html`<span class="break">${credential.name}</span>`,
            timeAgo(credential.last_used_at),
            timeAgo(credential.created_at),
            credential.state === "ACTIVE" ? moment(credential.due_at) : "–",
          ]),
          "compact",
        )}
      </section>
      ${nextPage(PLACE, next)}`,
  };
}

const VERSION_STATES = {
  PENDING: badge("wait", "pending"),
  ACTIVE: badge("good", "active"),
  RETIRING: badge("wait", "retiring"),
  RETIRED: badge("idle", "retired"),
  REVOKED: badge("bad", "revoked"),
} as const;

function versionRow(version: SecretVersion): Part[] {
  return [
    String(version.version),
    VERSION_STATES[version.state],
    moment(version.issued_at),
    moment(version.last_used_at),
    moment(version.due_at),
    moment(version.retired_at ?? version.retire_by),
  ];
}

/** Renders the scopes of this session's own credential; the API knows the scopes of no other credential. */
function scopesOf(visit: Visit, { id }: Credential): Part {
  if (id !== visit.identity.credentialId) {
    return "";
  }
  return html`<section aria-labelledby="scopes">
    <h2 id="scopes">Scopes of this session</h2>
    <p class="muted">This session was opened with this credential.</p>
    <ul class="tags">
      ${[...visit.identity.scopes].map((scope) => html`<li><code>${scope}</code></li>`)}
    </ul>
  </section>`;
}

function revocation(visit: Visit, { id, client_id: client }: Credential): Part {
  return html`<section aria-labelledby="revoke">
    <h2 id="revoke">Revoke</h2>
    ${typedConfirmation(visit, {
      action: `${PLACE}/${id}/revoke`,
      label: "Revoke credential",
      type: client,
      id: "confirm-revoke",
      warning: html`Its tokens stop working everywhere immediately, and it gets no new ones. This cannot be
      undone. ${id === visit.identity.credentialId && html`<strong>This also ends your session.</strong>`}`,
    })}
  </section>`;
}

/** Renders the form that replaces a credential. The API cannot replace one twice, and a workload has no secret. */
function rotationSection(visit: Visit, { id, state, ends_at: ends, rotation_mode: mode }: Credential): Part {
  return (
    state === "ACTIVE" &&
    ends === null &&
    mode !== "workload" &&
    visit.can("credentials:write") &&
    html`<section aria-labelledby="rotate">
      <h2 id="rotate">Rotate</h2>
      <p>Creates a credential that replaces this one. Its secret is shown once.</p>
      <form method="post" action="${PLACE}/${id}/rotate">
        ${formFields(visit)}
        <div class="field">
          <label for="overlap">This credential remains valid</label>
          <select id="overlap" name="overlap">
            ${OVERLAPS.map(([seconds, text]) => html`<option value="${seconds}">${text}</option>`)}
          </select>
        </div>
        <button>Rotate credential</button>
      </form>
    </section>`
  );
}

async function credentialPage(
  visit: Visit,
  id: string,
  notice?: PageContent["notice"],
): Promise<PageContent> {
  const credential = await visit.api.get<CredentialDetails>(`/v1/credentials/${id}`);
  const live = credential.state === "ACTIVE";
  return {
    title: credential.name ?? credential.client_id,
    place: PLACE,
    notice,
    body: html`<section aria-labelledby="about">
        <h2 id="about">About ${stateBadge(credential)}</h2>
        ${facts([
          ["Client id", html`<code>${credential.client_id}</code>`],
          ["Name", credential.name ?? "–"],
          ["Last used", timeAgo(credential.last_used_at)],
          ["Id", html`<code>${credential.id}</code>`],
          ["Principal", html`<code>${credential.principal_id}</code>`],
          ["Created", timeAgo(credential.created_at)],
          ["Next rotation", live ? moment(credential.due_at) : "–"],
          ["Rotation", credential.rotation_mode.replace("_", "-")],
          ["Certificate", credential.san_uri ?? (credential.certificate_thumbprints.join(", ") || "none")],
          ["Requires signatures to publish", credential.signature_required ? "yes" : "no"],
          ["Replaced by", credential.replaced_by ?? "–"],
          ["Ends", moment(credential.ends_at ?? credential.revoked_at)],
        ])}
      </section>
      ${
        credential.versions.length > 0 &&
        html`<section aria-labelledby="versions">
          <h2 id="versions">Versions of its secret</h2>
          ${table(
            "Versions of the secret",
            ["Version", "State", "Created", "Last used", "Rotation due", "Ends"],
            credential.versions.map(versionRow),
          )}
        </section>`
      }
      ${scopesOf(visit, credential)} ${rotationSection(visit, credential)}
      ${live && visit.can("credentials:revoke") && revocation(visit, credential)}`,
  };
}

function revokedPage(
  visit: Visit,
  client: string,
  { committed_at: at, edges, compliance }: Revocation,
): PageContent {
  return {
    title: "Credential revoked",
    place: PLACE,
    notice: { kind: "done", text: html`<code>${client}</code> is revoked.` },
    body: html`${facts([
        ["Committed", moment(at)],
        ["Edge nodes that enforce it", `${edges.acked} of ${edges.live}`],
        ["Compliance log", entryLink(visit, compliance.log_index)],
      ])}
      <p><a href="${PLACE}">All credentials</a></p>`,
  };
}

function registerRevocation(scope: SignetServer, { send }: PortalParts): void {
  scope.post(
    "/credentials/:id/revoke",
    {
      config: { portal: ["credentials:read", "credentials:revoke"] },
      schema: { hide: true, params: IdParams("credential"), body: Form({ confirm: Line(64) }) },
    },
    async ({ visit, params: { id }, body: { confirm, once } }, reply) => {
      const { client_id: client } = await visit.api.get<CredentialDetails>(`/v1/credentials/${id}`);
      const path = `/v1/credentials/${id}/revoke`;
      const revoked = await refused(
        confirm.trim() === client
          ? visit.api.send<Revocation>("POST", path, {}, once)
          : Promise.reject(
              validationFailed([
                { pointer: "/confirm", code: "mismatch", detail: "must be the credential's client id" },
              ]),
            ),
      );
      if ("error" in revoked) {
        const { error } = revoked;
        const page = await credentialPage(visit, id, { kind: "problem", text: error.message });
        return send(reply.code(error.status), visit, page);
      }
      return send(reply, visit, revokedPage(visit, client, revoked.answer));
    },
  );
}

function createPage(visit: Visit, fields: NewFields, error?: SignetError): PageContent {
  const errors = fieldErrors(error);
  const field = (name: keyof NewFields, label: string, help: string, attributes: Part) => ({
    name,
    label,
    help,
    optional: true,
    value: fields[name],
    attributes: html`autocomplete="off" spellcheck="false" ${attributes}`,
  });
  return {
    title: "Create credential",
    place: PLACE,
    notice: errors.notice,
    body: html`<form method="post" action="${PLACE}/new" class="stack">
      ${formFields(visit)}
      <p class="muted">
        It belongs to the principal of this session and has the scopes of that principal. Its secret is shown
        once.
      </p>
      ${lineField(field("name", "Name", "Where it is used, for people.", html`maxlength="${NAME_MAX}"`), errors)}
      <details ${["san_uri", "certificate_thumbprints", ""].some((name) => errors.has(name)) && html`open`}>
        <summary>Client certificate</summary>
        ${errors.text("", "The credential")}
        ${lineField(
          field(
            "san_uri",
            "SPIFFE URI",
            "In the client's certificate, for instance spiffe://acme.example/billing.",
            html`maxlength="${URI_MAX}"`,
          ),
          errors,
        )}
        ${areaField(
          field(
            "certificate_thumbprints",
            "Certificate thumbprints",
            "SHA-256, 64 hexadecimal digits, one per line.",
            html`rows="2" maxlength="${THUMBPRINTS_MAX}" class="code"`,
          ),
          errors,
        )}
      </details>
      <div class="buttons">
        <button class="primary">Create credential</button>
        <a class="button" href="${PLACE}">Cancel</a>
      </div>
    </form>`,
  };
}

function createdPage({ id, client_id: client, client_secret: secret = "" }: CreatedCredential): PageContent {
  return {
    title: "Credential created",
    place: PLACE,
    body: html`<p>
        This is its secret. It is shown only once: store it where your client can read it. Its client id is
        <code>${client}</code>.
      </p>
      <p class="secret"><code data-copy="">${secret}</code></p>
      <p><a class="button primary" href="${PLACE}/${id}">Go to the credential</a></p>`,
  };
}

function registerCreation(scope: SignetServer, { send }: PortalParts): void {
  scope.get("/credentials/new", { config: WRITING, schema: { hide: true } }, async ({ visit }, reply) =>
    send(reply, visit, createPage(visit, { name: "", san_uri: "", certificate_thumbprints: "" })),
  );
  scope.post(
    "/credentials/new",
    {
      config: WRITING,
      schema: {
        hide: true,
        body: Form({
          name: Line(NAME_MAX),
          san_uri: Line(URI_MAX),
          certificate_thumbprints: Line(THUMBPRINTS_MAX),
        }),
      },
    },
    async ({ visit, body }, reply) => {
      const { name, san_uri: uri, certificate_thumbprints: thumbprints, once } = body;
      const lines = thumbprints.split(/\s+/).filter((line) => line !== "");
      const asked = {
        ...(name.trim() === "" ? {} : { name: name.trim() }),
        ...(uri.trim() === "" ? {} : { san_uri: uri.trim() }),
        ...(lines.length === 0 ? {} : { certificate_thumbprints: lines }),
      };
      const made = await refused(visit.api.send<CreatedCredential>("POST", "/v1/credentials", asked, once));
      if ("error" in made) {
        const typed = {
          name: textAgain(name),
          san_uri: textAgain(uri),
          certificate_thumbprints: textAgain(thumbprints),
        };
        return send(reply.code(made.error.status), visit, createPage(visit, typed, made.error));
      }
      return send(reply, visit, createdPage(made.answer));
    },
  );
}

function registerRotation(scope: SignetServer, { send }: PortalParts): void {
  scope.post(
    "/credentials/:id/rotate",
    {
      config: WRITING,
      schema: {
        hide: true,
        params: IdParams("credential"),
        body: Form({ overlap: Type.Optional(OneOf(OVERLAPS.map(([seconds]) => seconds))) }),
      },
    },
    async ({ visit, params: { id }, body: { overlap, once } }, reply) => {
      const asked = { replaces: id, ...(overlap === undefined ? {} : { overlap_seconds: Number(overlap) }) };
      const made = await refused(visit.api.send<CreatedCredential>("POST", "/v1/credentials", asked, once));
      if ("error" in made) {
        const { error } = made;
        const page = await credentialPage(visit, id, { kind: "problem", text: error.message });
        return send(reply.code(error.status), visit, page);
      }
      return send(reply, visit, createdPage(made.answer));
    },
  );
}

export function registerCredentialPages(scope: SignetServer, parts: PortalParts): void {
  const { send } = parts;
  scope.get(
    "/credentials",
    {
      config: { portal: ["credentials:read"] },
      schema: { hide: true, querystring: Closed({ cursor: Type.Optional(Line(256)) }) },
    },
    async ({ visit, query: { cursor } }, reply) => {
      const after = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const list = await visit.api.get<ListAnswer<Credential>>(`/v1/credentials?limit=50${after}`);
      return send(reply, visit, listPage(visit, list));
    },
  );
  scope.get(
    "/credentials/:id",
    {
      config: { portal: ["credentials:read"] },
      schema: { hide: true, params: IdParams("credential") },
    },
    async ({ visit, params: { id } }, reply) => send(reply, visit, await credentialPage(visit, id)),
  );
  registerCreation(scope, parts);
  registerRotation(scope, parts);
  registerRevocation(scope, parts);
}

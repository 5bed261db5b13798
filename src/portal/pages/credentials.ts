/** Credentials: their scopes, secret versions, rotation and revocation. */
import { Type } from "typebox";
import { Closed, IdParams } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import type { Credential, CredentialDetails, Revocation, SecretVersion } from "../../lib/client/api-types.ts";
import { validationFailed } from "../../domain/errors.ts";
import type { ListAnswer } from "../context.ts";
import type { PortalParts } from "../page-parts.ts";
import { Form, Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import { badge, facts, moment, nextPage, table, typedConfirmation } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { entryLink } from "./compliance-parts.ts";

const PLACE = "/portal/credentials";

function stateBadge({ state, overdue }: Pick<Credential, "state" | "overdue">): Part {
  if (state === "REVOKED") {
    return badge("bad", "revoked");
  }
  return overdue ? badge("wait", "rotation overdue") : badge("good", "active");
}

function listPage({ data, next_cursor: next }: ListAnswer<Credential>): PageContent {
  return {
    title: "Credentials",
    place: PLACE,
    body: html`<ul class="cards">
        ${data.map(
          (credential) =>
            html`<li class="card row">
              <div>
                <a class="strong break" href="${PLACE}/${credential.id}">${credential.client_id}</a>
                <p class="muted">
                  ${
                    credential.revoked_at === null
                      ? credential.due_at === null
                        ? "No rotation is due."
                        : html`Next rotation ${moment(credential.due_at)}`
                      : html`Revoked ${moment(credential.revoked_at)}`
                  }
                </p>
              </div>
              ${stateBadge(credential)}
            </li>`,
        )}
      </ul>
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

async function credentialPage(
  visit: Visit,
  id: string,
  notice?: PageContent["notice"],
): Promise<PageContent> {
  const credential = await visit.api.get<CredentialDetails>(`/v1/credentials/${id}`);
  const live = credential.state === "ACTIVE";
  return {
    title: credential.client_id,
    place: PLACE,
    notice,
    body: html`<section aria-labelledby="about">
        <h2 id="about">About ${stateBadge(credential)}</h2>
        ${facts([
          ["Id", html`<code>${credential.id}</code>`],
          ["Principal", html`<code>${credential.principal_id}</code>`],
          ["Created", moment(credential.created_at)],
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
      ${scopesOf(visit, credential)}
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
      return send(reply, visit, listPage(list));
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
  registerRevocation(scope, parts);
}

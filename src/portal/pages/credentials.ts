/** Credentials: their scopes, secret versions, rotation and revocation, also by what leaked. */
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { Credential, LeakRevocation, Revocation, SecretVersion } from "#lib/client/api-types.ts";
import type { Page } from "#lib/client/paging.ts";
import { CredentialParams } from "#api/schemas/credentials.ts";
import { type SignetError, validationFailed } from "#domain/errors.ts";
import { LEAK_LENGTH_MAX } from "#tokens/leaks/recognize-leak.ts";
import type { PortalServices } from "../page-parts.ts";
import { lineField } from "../fields.ts";
import { Form, Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import {
  badge,
  facts,
  formFields,
  moment,
  nextPage,
  stateBadge,
  table,
  timeAgo,
  typedConfirmation,
} from "../parts.ts";
import { targetLink } from "../operator/target-pages.ts";
import { FieldErrors, refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { OVERLAPS } from "./endpoint/endpoint-signing.ts";
import { createdPage, CREDENTIALS as PLACE, registerCreation, WRITING } from "./new-credential.ts";
import { receiptPart, WAIT_FIELDS, waitField } from "./receipt.ts";

/** Credentials per page. */
const LISTED = 50;

function credentialBadge({ state, overdue }: Pick<Credential, "state" | "overdue">): Part {
  return overdue && state === "ACTIVE" ? badge("wait", "rotation overdue") : stateBadge(state);
}

function listPage(
  visit: Visit,
  { data, next_cursor: next }: Page<Credential>,
  failure?: SignetError,
): PageContent {
  return {
    title: "Credentials",
    place: PLACE,
    notice: failure === undefined ? undefined : new FieldErrors(failure).notice,
    actions: html`${visit.can("credentials:revoke") && html`<a class="button danger" href="#leak">Revoke what leaked</a>`}
    ${visit.can("credentials:write") && html`<a class="button primary" href="${PLACE}/new">Create credential</a>`}`,
    body: html`<section>
        ${table(
          "Credentials",
          ["Client id", "State", "Name", "Last used", "Created", "Next rotation"],
          data.map((credential) => [
            html`<a class="name" href="${PLACE}/${credential.id}">${credential.client_id}</a>`,
            credentialBadge(credential),
            credential.name === null ? "–" : html`<span class="break">${credential.name}</span>`,
            timeAgo(credential.last_used_at),
            timeAgo(credential.created_at),
            credential.state === "ACTIVE" ? moment(credential.due_at) : "–",
          ]),
          "compact",
        )}
      </section>
      ${nextPage(PLACE, next)} ${visit.can("credentials:revoke") && leakForm(visit, new FieldErrors(failure))}`,
  };
}

/** Word to type before a revocation by what leaked. */
const LEAK_WORD = "revoke";

/** Renders the form that revokes by what leaked. It never returns the text, which may be a secret. */
function leakForm(visit: Visit, errors: FieldErrors): Part {
  return html`<section aria-labelledby="leak">
    <h2 id="leak">Emergency revocation</h2>
    ${typedConfirmation(visit, {
      action: `${PLACE}/revoke`,
      label: "Revoke now",
      type: LEAK_WORD,
      id: "confirm-leak",
      warning: html`Finds the credential, secret or token and revokes it everywhere immediately. This cannot
        be undone. If it belongs to your own credential, <strong>your session may end</strong>.`,
      fields: html`${lineField(
        {
          name: "target",
          label: "What leaked?",
          value: "",
          help: html`A client id (<code>cl_…</code>), a client secret or signing secret, a whole access token,
          or the SHA-256 of a certificate. Secrets and tokens are neither stored nor shown again.`,
          attributes: html`required autocomplete="off" spellcheck="false" maxlength="${LEAK_LENGTH_MAX}"`,
        },
        errors,
      )}
      ${lineField(
        {
          name: "reason",
          label: "Reason",
          optional: true,
          value: "",
          help: "For the compliance log; no personal data.",
          attributes: html`autocomplete="off" maxlength="500"`,
        },
        errors,
      )}
      ${waitField("wait-leak")} ${errors.text("confirm", "The confirmation")}`,
    })}
  </section>`;
}

function versionRow(version: SecretVersion): Part[] {
  return [
    String(version.version),
    stateBadge(version.state),
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
      fields: waitField("wait-revoke"),
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
  const credential = await visit.api.credentials.get(id);
  const live = credential.state === "ACTIVE";
  return {
    title: credential.name ?? credential.client_id,
    place: PLACE,
    notice,
    actions: live && targetLink(visit, "credential", credential.id),
    body: html`<section aria-labelledby="about">
        <h2 id="about">About ${credentialBadge(credential)}</h2>
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

function receiptBody(visit: Visit, revocation: Revocation): Part {
  return html`${receiptPart(visit, revocation)}
    <p><a href="${PLACE}">All credentials</a></p>`;
}

function revokedPage(visit: Visit, client: string, revocation: Revocation): PageContent {
  return {
    title: "Credential revoked",
    place: PLACE,
    notice: { kind: "done", text: html`<code>${client}</code> is revoked.` },
    body: receiptBody(visit, revocation),
  };
}

type Revoked = LeakRevocation["revoked"][number];

/** Renders what was revoked, in a sentence. */
function revokedText({ kind, target, client_id: client, version, expired }: Revoked): Part {
  const credential = html`<a href="${PLACE}/${client ?? ""}"><code>${client ?? ""}</code></a>`;
  if (kind === "credential") {
    const secret = version !== null && ` Version ${version} of its secret had leaked.`;
    return html`Credential ${credential} is revoked.${secret}`;
  }
  if (kind === "signing_secret") {
    return html`Version ${version ?? ""} of the signing secret of ${credential} is revoked. The credential
    stays valid.`;
  }
  return html`Token <code>${target}</code> of ${credential} is revoked.
    ${expired && "It had already expired."} The credential stays valid.`;
}

function leakRevokedPage(visit: Visit, answer: LeakRevocation): PageContent {
  return {
    title: "Revoked",
    place: PLACE,
    notice: {
      kind: "done",
      text: answer.revoked.map((revoked) => html`<p>${revokedText(revoked)}</p>`),
    },
    body: receiptBody(visit, answer),
  };
}

function registerRevocation(scope: SignetServer, { send }: PortalServices): void {
  scope.post(
    "/credentials/:id/revoke",
    {
      config: { portal: ["credentials:read", "credentials:revoke"] },
      schema: {
        hide: true,
        params: IdParams("credential"),
        body: Form({ confirm: Line(64), ...WAIT_FIELDS }),
      },
    },
    async ({ visit, params: { id }, body: { confirm, wait, once } }, reply) => {
      const { client_id: client } = await visit.api.credentials.get(id);
      const revoked = await refused(
        confirm.trim() === client
          ? visit.apiFor({ wait, once }).credentials.revoke(id)
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

async function credentialList({ api }: Visit, cursor?: string): Promise<Page<Credential>> {
  return await api.credentials.list({ limit: LISTED, cursor }).page();
}

function registerLeakRevocation(scope: SignetServer, { send }: PortalServices): void {
  scope.post(
    "/credentials/revoke",
    {
      config: { portal: ["credentials:read", "credentials:revoke"] },
      schema: {
        hide: true,
        body: Form({
          target: Line(LEAK_LENGTH_MAX),
          reason: Line(500),
          confirm: Line(64),
          ...WAIT_FIELDS,
        }),
      },
    },
    async ({ visit, body: { target, reason, confirm, wait, once } }, reply) => {
      const why = reason.trim() === "" ? {} : { reason: reason.trim() };
      const revoked = await refused(
        confirm.trim() === LEAK_WORD
          ? visit.apiFor({ wait, once }).credentials.revokeLeaked(target, why)
          : Promise.reject(
              validationFailed([
                { pointer: "/confirm", code: "mismatch", detail: `must be the word ${LEAK_WORD}` },
              ]),
            ),
      );
      if ("error" in revoked) {
        const { error } = revoked;
        return send(reply.code(error.status), visit, listPage(visit, await credentialList(visit), error));
      }
      return send(reply, visit, leakRevokedPage(visit, revoked.answer));
    },
  );
}

function registerRotation(scope: SignetServer, { send }: PortalServices): void {
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
      const made = await refused(visit.apiFor({ once }).credentials.create(asked));
      if ("error" in made) {
        const { error } = made;
        const page = await credentialPage(visit, id, { kind: "problem", text: error.message });
        return send(reply.code(error.status), visit, page);
      }
      return send(reply, visit, createdPage(made.answer));
    },
  );
}

export function registerCredentialPages(scope: SignetServer, parts: PortalServices): void {
  const { send } = parts;
  scope.get(
    "/credentials",
    {
      config: { portal: ["credentials:read"] },
      schema: { hide: true, querystring: Closed({ cursor: Type.Optional(Line(256)) }) },
    },
    async ({ visit, query: { cursor } }, reply) => {
      return send(reply, visit, listPage(visit, await credentialList(visit, cursor)));
    },
  );
  scope.get(
    "/credentials/:id",
    {
      config: { portal: ["credentials:read"] },
      schema: { hide: true, params: CredentialParams },
    },
    async ({ visit, params: { id } }, reply) => send(reply, visit, await credentialPage(visit, id)),
  );
  registerCreation(scope, parts);
  registerRotation(scope, parts);
  registerRevocation(scope, parts);
  registerLeakRevocation(scope, parts);
}

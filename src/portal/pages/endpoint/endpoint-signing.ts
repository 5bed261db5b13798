/** An endpoint's signatures and automatic rotation: facts and form. */
import { Type } from "typebox";
import { IdParams, OneOf } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { EndpointSecretVersions } from "#lib/client/api-types.ts";
import type { SecretSettings } from "#lib/client/resources/types.ts";
import { type SignetError, validationFailed } from "#domain/errors.ts";
import { SEE_OTHER } from "#portal/context.ts";
import { areaField, lineField } from "#portal/fields.ts";
import { Form, Line } from "#portal/forms.ts";
import { html, type Part } from "#portal/html.ts";
import type { PageContent } from "#portal/layout.ts";
import type { PortalServices } from "#portal/page-parts.ts";
import { facts, formFields, textBlock } from "#portal/parts.ts";
import { FieldErrors, refused } from "#portal/problems.ts";
import { isPrivateKey, publicKeyAgain } from "#portal/typed-again.ts";
import type { Visit } from "#portal/visit.ts";
import { ENDPOINTS } from "./endpoint-parts.ts";
import { jsonMember, NUMBER_ATTRIBUTES, numberMember } from "./endpoint-settings.ts";

const WRITING = { portal: ["webhooks:read", "webhooks:write"] };
const RECIPIENT_MAX = 4_096;
const SIGNING = ["hmac-sha256", "ed25519"] as const;

const SigningForm = Form({
  signing: OneOf(SIGNING),
  rotation_days: Line(16),
  recipient: Line(RECIPIENT_MAX),
});

/** Field values as typed. */
interface SigningFields {
  readonly signing: SecretSettings["signing"];
  readonly rotation_days: string;
  readonly recipient: string;
}

/** Renders the facts that a receiver needs to verify signatures. */
export function signingFacts({
  signing,
  rotation_days: days,
  recipient,
  data,
}: EndpointSecretVersions): Part {
  const live = data.filter(({ state }) => state !== "RETIRED");
  return html`${facts([
    ["Signatures", signing === "ed25519" ? "HMAC-SHA-256 and Ed25519" : "HMAC-SHA-256"],
    ["Automatic rotation", days === null ? "off" : `every ${days === 1 ? "day" : `${days} days`}`],
    ["Encrypt new secrets with", recipient === null ? "–" : "your public key"],
    ...live.flatMap(({ version, public_key: key }) =>
      key === null ? [] : [[`Public key of version ${version}`, html`<code>${key}</code>`] as const],
    ),
  ])}
  ${live.map(
    ({ version, encrypted_secret: secret }) =>
      secret !== null &&
      html`<h3>Version ${version}, encrypted to your key</h3>
        ${textBlock(`Encrypted secret of version ${version}`, secret)}`,
  )}`;
}

/** Options for the overlap of a rotation, in seconds. */
export const OVERLAPS = [
  ["86400", "for a day"],
  ["3600", "for an hour"],
  ["604800", "for seven days"],
  ["0", "not at all, because it was disclosed"],
] as const;

/** Fields of the rotation form. */
export const ROTATION_FIELDS = { overlap: Type.Optional(OneOf(OVERLAPS.map(([seconds]) => seconds))) };

/** Renders the rotation form. During a rotation, it only offers to replace every secret now. */
export function rotationForm(visit: Visit, action: string, { data }: EndpointSecretVersions): Part {
  if (data.some(({ state }) => state === "NEXT" || state === "PREVIOUS")) {
    return html`<form method="post" action="${action}">
      ${formFields(visit)}<input type="hidden" name="overlap" value="0" />
      <button class="danger">Replace every secret now</button>
    </form>`;
  }
  return html`<form method="post" action="${action}">
    ${formFields(visit)}
    <div class="field">
      <label for="overlap">The current secret continues to sign</label>
      <select id="overlap" name="overlap">
        ${OVERLAPS.map(([seconds, text]) => html`<option value="${seconds}">${text}</option>`)}
      </select>
    </div>
    <button>Rotate secret</button>
  </form>`;
}

/** @throws SignetError VALIDATION_FAILED if a field is malformed, or for a private key, which is not sent anywhere */
function signingBody({ signing, rotation_days: days, recipient }: SigningFields): SecretSettings {
  if (isPrivateKey(recipient)) {
    const detail =
      "is a private key, which only you may have: enter only the public part. The key was not stored";
    throw validationFailed([{ pointer: "/recipient", code: "private_key", detail }]);
  }
  const { json, problem } = jsonMember("recipient", recipient);
  if (problem !== undefined) {
    throw validationFailed([problem]);
  }
  return { signing, rotation_days: numberMember(days), recipient: json };
}

function signingPage(visit: Visit, id: string, values: SigningFields, error?: SignetError): PageContent {
  const errors = new FieldErrors(error);
  return {
    title: "Signatures and rotation",
    place: ENDPOINTS,
    notice: errors.notice,
    body: html`<form method="post" action="${ENDPOINTS}/${id}/signing" class="stack">
      ${formFields(visit)}
      <div class="field">
        <label for="signing">Signatures</label>
        <select id="signing" name="signing" ${errors.attributes("signing", "signing-help")}>
          ${SIGNING.map(
            (name) =>
              html`<option value="${name}" ${name === values.signing && html`selected`}>
                ${name === "ed25519" ? "HMAC-SHA-256 and Ed25519" : "HMAC-SHA-256"}
              </option>`,
          )}
        </select>
        <p class="muted" id="signing-help">
          With Ed25519, a receiver verifies with a public key, which is not secret. If you turn Ed25519 off,
          its keys are removed immediately.
        </p>
        ${errors.text("signing", "Signatures")}
      </div>
      ${lineField(
        {
          name: "rotation_days",
          label: "Automatic rotation, in days",
          optional: true,
          value: values.rotation_days,
          attributes: NUMBER_ATTRIBUTES,
          help: "1 to 365; leave empty to turn it off. Requires Ed25519 or the key below, because no page shows a secret twice.",
        },
        errors,
      )}
      ${areaField(
        {
          name: "recipient",
          label: "Your public key",
          optional: true,
          value: values.recipient,
          attributes: html`rows="4" maxlength="${RECIPIENT_MAX}" class="code" autocomplete="off"`,
          help: "A JWK: RSA of 2,048 bits or more, P-256, P-384, P-521 or X25519. New secrets are encrypted to it. If it is rejected, you may have to enter it again.",
        },
        errors,
      )}
      <div class="buttons">
        <button class="primary">Save</button>
        <a class="button" href="${ENDPOINTS}/${id}">Cancel</a>
      </div>
    </form>`,
  };
}

export function registerEndpointSigning(scope: SignetServer, { send }: PortalServices): void {
  const params = IdParams("endpoint");
  scope.get(
    "/endpoints/:id/signing",
    { config: WRITING, schema: { hide: true, params } },
    async ({ visit, params: { id } }, reply) => {
      const { signing, rotation_days, recipient } = await visit.api.endpoints.secrets.list(id);
      const values = {
        signing,
        rotation_days: rotation_days === null ? "" : String(rotation_days),
        recipient: recipient === null ? "" : JSON.stringify(recipient, undefined, 2),
      };
      return send(reply, visit, signingPage(visit, id, values));
    },
  );
  scope.post(
    "/endpoints/:id/signing",
    { config: WRITING, schema: { hide: true, params, body: SigningForm } },
    async ({ visit, params: { id }, body }, reply) => {
      const saved = await refused(
        (async () => await visit.api.endpoints.secrets.update(id, signingBody(body)))(),
      );
      if ("error" in saved) {
        const values = { ...body, recipient: publicKeyAgain(body.recipient) };
        const page = signingPage(visit, id, values, saved.error);
        return send(reply.code(saved.error.status), visit, page);
      }
      return await reply.redirect(`${ENDPOINTS}/${id}?done=changed`, SEE_OTHER);
    },
  );
}

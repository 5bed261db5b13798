/** The pages that create a credential. */
import type { SignetError } from "#domain/errors.ts";
import type { SignetServer } from "#http/types.ts";
import type { CreatedCredential } from "#lib/client/api-types.ts";
import { areaField, lineField } from "../fields.ts";
import { Form, Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { formFields } from "../parts.ts";
import { FieldErrors, refused } from "../problems.ts";
import { textAgain } from "../typed-again.ts";
import type { Visit } from "../visit.ts";

export const CREDENTIALS = "/portal/credentials";
export const WRITING = { portal: ["credentials:read", "credentials:write"] };
const NAME_MAX = 128;
const URI_MAX = 2_048;
const THUMBPRINTS_MAX = 1_024;

/** Names and SHA-256 thumbprints as typed, one thumbprint per line. */
interface NewFields {
  readonly name: string;
  readonly san_uri: string;
  readonly certificate_thumbprints: string;
}
function createPage(visit: Visit, fields: NewFields, error?: SignetError): PageContent {
  const errors = new FieldErrors(error);
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
    place: CREDENTIALS,
    notice: errors.notice,
    body: html`<form method="post" action="${CREDENTIALS}/new" class="stack">
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
        <a class="button" href="${CREDENTIALS}">Cancel</a>
      </div>
    </form>`,
  };
}

export function createdPage({
  id,
  client_id: client,
  client_secret: secret = "",
}: CreatedCredential): PageContent {
  return {
    title: "Credential created",
    place: CREDENTIALS,
    body: html`<p>
        This is its secret. It is shown only once: store it where your client can read it. Its client id is
        <code>${client}</code>.
      </p>
      <p class="secret"><code data-copy="">${secret}</code></p>
      <p><a class="button primary" href="${CREDENTIALS}/${id}">Go to the credential</a></p>`,
  };
}

export function registerCreation(scope: SignetServer, { send }: PortalServices): void {
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
      const made = await refused(visit.apiFor({ once }).credentials.create(asked));
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

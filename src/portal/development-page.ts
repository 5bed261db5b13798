/** The page at `/` in development: links to everything that people look at. It runs no scripts. */
import type { RootPage } from "#api/routes/root.ts";
import type { Clock } from "#domain/clock.ts";
import type { TemporalUi } from "#temporal/views.ts";
import { Assets } from "./assets.ts";
import type { Brand } from "./brand.ts";
import { NPX_SIGNET } from "#runtime/package.ts";
import { html, type Html, type Part } from "./html.ts";
import { document, SCRIPTLESS_HEADERS } from "./layout.ts";
import { facts, temporalViews } from "./parts.ts";

const COMMANDS: readonly (readonly [string, string])[] = [
  [`${NPX_SIGNET} portal --open`, "Opens the portal, signed in"],
  [`${NPX_SIGNET} listen`, "Receives and verifies events"],
  [`${NPX_SIGNET} trigger inference.completed`, "Publishes an event"],
  [`${NPX_SIGNET} delivery list`, "Lists deliveries"],
];

function link(url: string, text: string, help: string): Html {
  return html`<li class="card">
    <a class="strong" href="${url}">${text}</a>
    <p class="muted">${help}</p>
  </li>`;
}

function body(temporalUiUrl: string | undefined, views: Part): Part {
  return html`<section aria-labelledby="pages">
      <h2 id="pages">Pages</h2>
      <ul class="cards">
        ${link("/portal", "Tenant portal", "Endpoints, deliveries, dead letters. The first command below signs you in.")}
        ${link("/docs", "API reference", "Every route, with examples.")}
        ${temporalUiUrl !== undefined && link(temporalUiUrl, "Temporal", "The workflow of each delivery.")}
        ${link("/errors/not-found", "Errors", "Every error code, with its causes and remedies.")}
        ${link("/openapi.json", "OpenAPI document", "For code generators.")}
      </ul>
    </section>
    ${views}
    <section aria-labelledby="commands">
      <h2 id="commands">Commands</h2>
      ${facts(COMMANDS.map(([command, help]) => [help, html`<code>${command}</code>`]))}
    </section>`;
}

/** Creates the page. */
export function createDevelopmentPage(brand: Brand, temporal: TemporalUi, clock: Clock): RootPage {
  const assets = new Assets();
  return {
    headers: SCRIPTLESS_HEADERS,
    render: async () =>
      document(assets, brand, undefined, {
        title: "Signet in development",
        scripted: false,
        body: body(temporal.uiUrl, await temporalViews(temporal, clock.now())),
      }),
  };
}

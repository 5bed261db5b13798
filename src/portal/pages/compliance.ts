/** The tenant's entries in the compliance log, and a page for one entry, whose proof browsers verify themselves. */
import { type Static, Type } from "typebox";
import { Closed } from "#http/common.ts";
import { EntryParams } from "#api/schemas/compliance.ts";
import type { SignetServer } from "#http/types.ts";
import type { ComplianceCheckpoint, ComplianceEntry, ComplianceQuery } from "#lib/client/api-types.ts";
import { ENTRY_TYPES } from "#compliance/entry-types.ts";
import {
  apiQuery,
  filterNotice,
  choice,
  type FilterFields,
  filteredPath,
  filters,
  option,
} from "../filters.ts";
import { Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { facts, jsonBlock, moment, nextPage, table } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { actorText, COMPLIANCE, thing } from "./compliance-parts.ts";
import { entryProcesses } from "./receipt.ts";

const PAGE = 50;
const READING = { portal: ["compliance:read"] };

const EntriesQuery = Closed({
  type: Type.Optional(Line(64)),
  from: Type.Optional(Line(40)),
  to: Type.Optional(Line(40)),
  cursor: Type.Optional(Line(256)),
} satisfies FilterFields<ComplianceQuery>);
type EntriesQuery = Static<typeof EntriesQuery>;

function filterForm(query: EntriesQuery): Html {
  const types = ENTRY_TYPES.map((type) => option(type, type, query.type));
  return filters({
    path: COMPLIANCE,
    label: "Filter entries",
    fields: [choice("type", "Type", types)],
    query,
  });
}

function entriesTable(visit: Visit, entries: readonly ComplianceEntry[]): Html {
  return table(
    "Compliance entries",
    ["Entry", "Type", "Time", "By", "About"],
    entries.map(({ index, type, at, actor, target }) => [
      html`<a href="${COMPLIANCE}/${index}">${index}</a>`,
      type,
      moment(at),
      actorText(visit, actor),
      thing(visit, target),
    ]),
  );
}

async function listPage(
  visit: Visit,
  query: EntriesQuery,
): Promise<{ readonly status: number; readonly content: PageContent }> {
  const asked = await refused(visit.api.compliance.list({ limit: PAGE, ...apiQuery(query) }).page());
  const common = { title: "Compliance", place: COMPLIANCE };
  if ("error" in asked) {
    const notice = filterNotice(asked.error);
    return { status: asked.error.status, content: { ...common, notice, body: filterForm(query) } };
  }
  const { data, next_cursor: next } = asked.answer;
  const body = html`<p class="muted">
      Changes that affect security, and who made them. For each entry, you can verify that it is in the log
      and that the log was not changed since.
    </p>
    ${filterForm(query)}
    <section aria-labelledby="entries">
      <h2 id="entries">Entries</h2>
      ${data.length === 0 ? html`<p class="empty">No entries found.</p>` : entriesTable(visit, data)}
    </section>
    ${nextPage(filteredPath(COMPLIANCE, query), next, query.cursor === undefined)}`;
  return { status: 200, content: { ...common, body } };
}

/** Renders the checkpoint that covers the entry, because proofs exist only for signed trees. */
function coverage(index: number, checkpoint: ComplianceCheckpoint | undefined): Part {
  if (checkpoint === undefined || index >= checkpoint.size) {
    return html`<p>No checkpoint covers this entry yet. The next one is signed within a minute.</p>`;
  }
  const { size, signed_at: at, verifier_key: key } = checkpoint;
  return facts([
    ["Newest checkpoint", `${size} entries`],
    ["Signed", moment(at)],
    ["Key, according to this service", key === null ? "unknown" : html`<code>${key}</code>`],
  ]);
}

/** Renders the form for the verifying script; hidden until the script runs. */
function checkForm(index: number): Html {
  return html`<div data-proof data-index="${index}" data-url="${COMPLIANCE}/${index}/proof" hidden>
    <h3>In this browser</h3>
    <form autocomplete="off">
      <div class="field">
        <label for="vkey">Verifier key <span class="muted">(name+id+key)</span></label>
        <input id="vkey" name="vkey" maxlength="1024" spellcheck="false" aria-describedby="vkey-help" />
        <p class="muted" id="vkey-help">
          Use the key that the operators publish outside this portal, for instance in a contract. If you leave
          this empty, the key that this service names is used. It is saved, to notice a different key later.
        </p>
        <p class="muted break" data-pinned></p>
      </div>
      <div class="buttons">
        <button class="primary">Check the proof</button>
        <button type="button" class="quiet" data-forget hidden>Remove the saved key</button>
      </div>
    </form>
    <div class="verdict" data-verdict></div>
  </div>`;
}

function command(text: string): Html {
  return html`<p class="command"><code data-copy="">${text}</code></p>`;
}

function proofSection(index: number, checkpoint: ComplianceCheckpoint | undefined): Html {
  return html`<section aria-labelledby="proof">
    <h2 id="proof">Proof</h2>
    ${coverage(index, checkpoint)} ${checkForm(index)}
    <h3>On your own machine</h3>
    <p>
      <code>VKEY</code> is the verifier key of the log, <code>name+id+key</code>. Get it from the operators of
      this service, but not through this page; <code>signet keys checkpoint-key</code> prints it for them. A
      key that this service itself names only shows that the log is signed with that key. An attacker who can
      show a false log here can also show a false key.
    </p>
    ${command(`signet compliance verify ${index} --vkey "$VKEY"`)}
    <p>Operators check the entry, or the whole log, with:</p>
    ${command(`signet audit verify --entry ${index} --vkey "$VKEY"`)}
    ${command(`signet audit verify --vkey "$VKEY"`)}
  </section>`;
}

async function entryPage(visit: Visit, idx: number): Promise<PageContent> {
  const [entry, asked] = await Promise.all([
    visit.api.compliance.get(idx),
    refused(visit.api.compliance.checkpoint()),
  ]);
  const checkpoint = "error" in asked ? undefined : asked.answer;
  const { index, type, at, actor, target, reason, request_id: request, details } = entry;
  return {
    title: `Entry ${index}: ${type}`,
    place: COMPLIANCE,
    module: "compliance.js",
    body: html`<section aria-labelledby="about">
        <h2 id="about">About</h2>
        ${facts([
          ["Time", moment(at)],
          ["By", actorText(visit, actor)],
          ["About", thing(visit, target)],
          ["Reason", reason ?? "–"],
          ["Request", request === null ? "–" : html`<code>${request}</code>`],
          ["Leaf hash", html`<code>${entry.leaf_hash}</code>`],
        ])}
        ${
          Object.keys(details).length > 0 &&
          html`<h3>Details</h3>
            ${entryProcesses(type, details)} ${jsonBlock("Details", details)}`
        }
      </section>
      ${proofSection(index, checkpoint)}`,
  };
}

/** Returns everything that proves an entry. It gets the checkpoint first, so that the proofs fit its tree. */
async function proofAnswer({ api: { proofs } }: Visit, idx: number, from: number | undefined) {
  const { size, note, verifier_key } = await proofs.checkpoint();
  const continued = from !== undefined && from <= size;
  const [{ entry }, { hashes }, consistency] = await Promise.all([
    proofs.entry(idx),
    proofs.inclusion(idx, size),
    continued ? proofs.consistency(from, size) : undefined,
  ]);
  return { entry, note, verifier_key, hashes, ...(consistency && { consistency: consistency.hashes }) };
}

function registerProof(scope: SignetServer): void {
  scope.get(
    "/compliance/:idx/proof",
    {
      config: READING,
      schema: {
        hide: true,
        params: EntryParams,
        querystring: Closed({
          from: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
        }),
      },
    },
    async ({ visit, params: { idx }, query: { from } }, reply) => {
      const asked = await refused(proofAnswer(visit, Number(idx), from));
      return "error" in asked
        ? await reply.code(asked.error.status).send({ code: asked.error.code, detail: asked.error.message })
        : await reply.send(asked.answer);
    },
  );
}

export function registerCompliancePages(scope: SignetServer, parts: PortalServices): void {
  scope.get(
    "/compliance",
    { config: READING, schema: { hide: true, querystring: EntriesQuery } },
    async ({ visit, query }, reply) => {
      const { status, content } = await listPage(visit, query);
      return parts.send(reply.code(status), visit, content);
    },
  );
  scope.get(
    "/compliance/:idx",
    { config: READING, schema: { hide: true, params: EntryParams } },
    async ({ visit, params: { idx } }, reply) =>
      parts.send(reply, visit, await entryPage(visit, Number(idx))),
  );
  registerProof(scope);
}

/**
 * Pages of a tenant, a principal and a credential, on which operators revoke, hold and release. These are the console's
 * only changes. They go through the operators' API in this process, with the role of the session's operator.
 */
import type { FastifyRequest } from "fastify";
import type { InProcessCall } from "#api/in-process.ts";
import { CredentialParams } from "#api/schemas/credentials.ts";
import { REASON_MAX } from "#api/schemas/revocations.ts";
import { type SignetError, validationFailed } from "#domain/errors.ts";
import type { SHOWN_STATES } from "#domain/shown-states.ts";
import { IdParams } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { SEE_OTHER } from "../context.ts";
import { lineField } from "../fields.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import { CONSOLE_SCOPE, type PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { facts, moment, stateBadge, typedConfirmation } from "../parts.ts";
import { FieldErrors, refused } from "../problems.ts";
import { textAgain } from "../typed-again.ts";
import { refusal, type Visit } from "../visit.ts";
import type { ConsoleOptions } from "./console-options.ts";

const TARGETS = ["tenant", "principal", "credential"] as const;
type TargetNoun = (typeof TARGETS)[number];

const CHANGING = "operator:security";
/** Longest text that a form takes; the API has the limits of a reason, and names them. */
const TEXT_MAX = 2_048;

/** The members of the API's answers that the pages show. */
interface TargetAnswer {
  readonly id: string;
  readonly name: string | null;
  readonly state: keyof typeof SHOWN_STATES;
  readonly created_at: string;
  readonly tenant_id?: string;
  readonly principal_id?: string;
  readonly client_id?: string;
  readonly held_at?: string | null;
  readonly revoked_at?: string | null;
}

/** A target, with the text that confirms a change. */
interface Target extends TargetAnswer {
  readonly noun: TargetNoun;
  readonly confirmation: string;
}

/** Names that every keyboard can type, and that a page shows without loss. */
const TYPEABLE = /^[!-~]+(?: [!-~]+)*$/;

/** Returns the text to type: the client id of a credential, otherwise the name, or the id if the name is hard to type. */
function confirmationOf({ id, name, client_id: client }: TargetAnswer): string {
  return client ?? (name !== null && TYPEABLE.test(name) ? name : id);
}

interface Act {
  readonly name: "hold" | "release" | "revoke";
  readonly nouns: readonly TargetNoun[];
  readonly title: string;
  readonly warning: Readonly<Partial<Record<TargetNoun, string>>>;
  readonly applies: (target: Target) => boolean;
}

const ACTS: readonly Act[] = [
  {
    name: "hold",
    nouns: ["tenant"],
    title: "Hold",
    warning: {
      tenant:
        "Nothing is sent to its endpoints, and their secrets do not rotate. Events are still accepted. Release undoes it.",
    },
    applies: ({ state, held_at: held }) => state !== "ERASED" && held === null,
  },
  {
    name: "release",
    nouns: ["tenant"],
    title: "Release",
    warning: { tenant: "Its deliveries go on. Overdue ones are attempted as soon as capacity allows." },
    applies: ({ state, held_at: held }) => state !== "ERASED" && held !== null,
  },
  {
    name: "revoke",
    nouns: TARGETS,
    title: "Revoke",
    warning: {
      tenant:
        "All its tokens are rejected everywhere within 250 ms, and it gets no new ones. The command line and the API can resume it.",
      principal:
        "All tokens of its credentials are rejected everywhere within 250 ms, and it gets no new ones. This cannot be undone.",
      credential:
        "Its tokens are rejected everywhere within 250 ms, and it gets no new ones. This cannot be undone.",
    },
    applies: ({ state }) => state === "ACTIVE",
  },
];

/** Returns the path of a target's page. */
function targetPath(noun: TargetNoun, id: string): string {
  return `/portal/operator/${noun}s/${id}`;
}

/** Renders a link to a target's page for operators who may change it; otherwise nothing. */
export function targetLink(visit: Visit, noun: TargetNoun, id: string): Part {
  return (
    visit.can(CHANGING) &&
    html`<a class="button" href="${targetPath(noun, id)}"
      >${noun === "tenant" ? "Hold or revoke" : "Revoke"}</a
    >`
  );
}

/** A rejected form: what it asked, the reason as typed, and why it was rejected. */
interface Rejected {
  readonly act: Act["name"];
  readonly reason: string;
  readonly error: SignetError;
}

function actForm(visit: Visit, act: Act, target: Target, rejected: Rejected | undefined): Html {
  const { name, title } = act;
  const mine = rejected?.act === name ? rejected : undefined;
  const errors = new FieldErrors(mine?.error);
  const reason = {
    name: "reason",
    id: `reason-${name}`,
    label: "Reason",
    value: textAgain(mine?.reason ?? ""),
    help: `For the compliance log; no personal data. At most ${REASON_MAX} characters.`,
    attributes: html`required autocomplete="off" maxlength="${REASON_MAX}"`,
  };
  return html`<section aria-labelledby="${name}">
    <h2 id="${name}">${title}</h2>
    ${typedConfirmation(visit, {
      action: `${targetPath(target.noun, target.id)}/${name}`,
      label: `${title} ${target.noun}`,
      type: target.confirmation,
      id: `confirm-${name}`,
      warning: act.warning[target.noun] ?? "",
      fields: html`${lineField(reason, errors)} ${errors.text("confirm", "The confirmation")}`,
    })}
  </section>`;
}

/** Renders a target's id as a link to its page. */
export function targetReference(noun: TargetNoun, id: string): Html {
  return html`<a href="${targetPath(noun, id)}"><code>${id}</code></a>`;
}

function targetPage(visit: Visit, target: Target, rejected?: Rejected): PageContent {
  const { noun, id, name, state, confirmation, created_at: created } = target;
  const { tenant_id: tenant, principal_id: principal, client_id: client } = target;
  const { held_at: held, revoked_at: revoked } = target;
  const text = rejected && new FieldErrors(rejected.error).notice?.text;
  return {
    title: `${noun.charAt(0).toUpperCase()}${noun.slice(1)} ${confirmation}`,
    place: "/portal/operator/tenants",
    notice: rejected && { kind: "problem", text: html`${text} Code <code>${rejected.error.code}</code>.` },
    body: html`${facts([
      ["Id", html`<code>${id}</code>`],
      ["Name", name ?? "–"],
      ["State", stateBadge(state)],
      ...(client === undefined ? [] : [["Client id", html`<code>${client}</code>`] as const]),
      ...(tenant === undefined ? [] : [["Tenant", targetReference("tenant", tenant)] as const]),
      ...(principal === undefined ? [] : [["Principal", targetReference("principal", principal)] as const]),
      ...(held === undefined ? [] : [["Deliveries on hold since", moment(held)] as const]),
      ...(revoked === undefined ? [] : [["Revoked", moment(revoked)] as const]),
      ["Created", moment(created)],
    ])}
    ${
      visit.can(CHANGING) &&
      ACTS.filter(({ nouns, applies }) => nouns.includes(noun) && applies(target)).map((act) =>
        actForm(visit, act, target, rejected),
      )
    }`,
  };
}

function confirms(typed: string, { confirmation }: Target): boolean {
  return typed.trim() === confirmation;
}

/** Returns why a form is rejected before the API is asked; empty if it is not. */
function problemsOf(target: Target, { confirm, reason }: { confirm: string; reason: string }) {
  return [
    ...(reason.trim() === "" ? [{ pointer: "/reason", code: "required", detail: "is required" }] : []),
    ...(confirms(confirm, target)
      ? []
      : [{ pointer: "/confirm", code: "mismatch", detail: `must be ${target.confirmation}` }]),
  ];
}

/** Registers the pages. */
export function registerTargetPages(
  scope: SignetServer,
  { send }: PortalServices,
  { operatorCalls }: ConsoleOptions,
): void {
  /** @throws SignetError with the API's code */
  async function ask<Answer>(
    { operator, id: requestId }: FastifyRequest,
    asked: Omit<InProcessCall, "requestId">,
  ): Promise<Answer> {
    const answer = await operatorCalls.call(scope, operator, { ...asked, requestId });
    if (answer.status >= 400) {
      throw refusal(answer);
    }
    return answer.body as Answer;
  }

  async function read(request: FastifyRequest, noun: TargetNoun, id: string): Promise<Target> {
    const answer = await ask<TargetAnswer>(request, { method: "GET", path: `/admin/v1/${noun}s/${id}` });
    return { ...answer, noun, confirmation: confirmationOf(answer) };
  }

  for (const noun of TARGETS) {
    const params = noun === "credential" ? CredentialParams : IdParams(noun);
    scope.get(
      `/operator/${noun}s/:id`,
      { config: { portal: [CONSOLE_SCOPE] }, schema: { hide: true, params } },
      async (request, reply) => {
        const target = await read(request, noun, request.params.id);
        return send(reply, request.visit, targetPage(request.visit, target));
      },
    );
    for (const { name } of ACTS.filter(({ nouns }) => nouns.includes(noun))) {
      scope.post(
        `/operator/${noun}s/:id/${name}`,
        {
          config: { portal: [CONSOLE_SCOPE, CHANGING] },
          schema: { hide: true, params, body: Form({ reason: Line(TEXT_MAX), confirm: Line(TEXT_MAX) }) },
        },
        async (request, reply) => {
          const { visit, body } = request;
          const target = await read(request, noun, request.params.id);
          const path = `/admin/v1/${noun}s/${target.id}/${name}`;
          const problems = problemsOf(target, body);
          const done = await refused(
            problems.length === 0
              ? ask(request, {
                  method: "POST",
                  path,
                  body: { reason: body.reason.trim() },
                  idempotencyKey: body.once,
                })
              : Promise.reject(validationFailed(problems)),
          );
          if ("error" in done) {
            const { error } = done;
            const rejected = { act: name, reason: body.reason, error };
            return send(reply.code(error.status), visit, targetPage(visit, target, rejected));
          }
          return await reply.redirect(targetPath(noun, target.id), SEE_OTHER);
        },
      );
    }
  }
}

/** How pages call the API: its methods have types, and forms, errors and numbers pass unchanged. */
import { fastify, type FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { InProcessCalls } from "#api/in-process.ts";
import type { PageOptions } from "#portal/context.ts";
import { Visit, type VisitingOperator } from "#portal/visit.ts";

/** Returns a visit, and the requests that reach the API. */
function visiting(answer: { status?: number; text: string }, operator?: VisitingOperator) {
  const server = fastify();
  const requests: { method: string; url: string; key: unknown; body: unknown }[] = [];
  server.route({
    method: ["DELETE", "GET", "PATCH", "POST"],
    url: "/*",
    handler: async ({ method, url, headers, body }, reply) => {
      requests.push({ method, url, key: headers["idempotency-key"], body });
      return await reply
        .code(answer.status ?? 200)
        .header("retry-after", "7")
        .type("application/json")
        .send(answer.text);
    },
  });
  const visit = new Visit(
    { id: "req_1" } as FastifyRequest,
    { secret: "s", identity: { scopes: new Set() } } as unknown as ConstructorParameters<typeof Visit>[1],
    {
      server,
      calls: new InProcessCalls(),
      temporal: {} as PageOptions["temporal"],
      brand: {} as Visit["brand"],
      operator,
    },
  );
  return { visit, requests };
}

test("a form's change has the form's key, and no other call has one", async () => {
  const { visit, requests } = visiting({ text: "{}" });
  await visit.apiFor({ once: "k".repeat(16) }).deadLetters.replay("dlv_1");
  await visit.apiFor({ once: "k".repeat(16), wait: "region" }).credentials.revoke("crd_1");
  await visit.apiFor({}).endpoints.disable("ep_1");
  await visit.api.deadLetters.countReplay({ ids: ["dlv_1"] });
  expect(requests.map(({ url, key }) => [url, key])).toEqual([
    ["/v1/webhooks/dlq/dlv_1/replay", "k".repeat(16)],
    ["/v1/credentials/crd_1/revoke?wait=region", "k".repeat(16)],
    ["/v1/webhooks/endpoints/ep_1/disable", undefined],
    ["/v1/webhooks/dlq/replay", undefined],
  ]);
});

test("a rejection has the API's code, text, members and Retry-After", async () => {
  const errors = [{ pointer: "/url", code: "form", detail: "must be a URL" }];
  const problem = { code: "VALIDATION_FAILED", detail: "One member is invalid.", errors };
  const { visit } = visiting({ status: 422, text: JSON.stringify(problem) });
  await expect(visit.api.endpoints.get("ep_1")).rejects.toMatchObject({
    name: "SignetError",
    code: "VALIDATION_FAILED",
    message: "One member is invalid.",
    extensions: { errors },
    headers: { "retry-after": "7" },
  });
});

test("the text of an answer has the tenant's numbers; an operator's has no content", async () => {
  const text = '{"id":"ep_1","metadata":{"n":1.0}}';
  const tenant = visiting({ text }).visit;
  expect(tenant.textOf(await tenant.api.endpoints.get("ep_1"))).toBe(text);
  const operator = visiting({ text }, { name: "ada", expiresAt: new Date(0) }).visit;
  expect(operator.textOf(await operator.api.endpoints.get("ep_1"))).toBe('{"id":"ep_1","metadata":null}');
});

test("only methods and members that the API has compile", () => {
  const calls = async ({ api }: Visit): Promise<readonly unknown[]> => [
    // @ts-expect-error the API has no such method
    await api.endpoints.pause("ep_1"),
    // @ts-expect-error the checkpoint has no such member
    (await api.compliance.checkpoint()).length,
    // @ts-expect-error the list has no such filter
    await api.deliveries.list({ endpoint: "ep_1" }).page(),
    // @ts-expect-error a credential has no such state
    (await api.credentials.get("crd_1")).state === "EXPIRED",
    // @ts-expect-error the portal streams in its own way
    api.deliveries.stream(),
  ];
  expect(calls).toBeTypeOf("function");
});

/**
 * JSONTestSuite (test/corpora): what JSON allows is accepted and arrives byte for byte. What it forbids is a 400. The
 * documents whose names begin with i_ may be either.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ERROR_CATALOGUE } from "#domain/errors.ts";
import { bearer } from "../support/factories.ts";
import { type Answer, readAnswer } from "../support/answer.ts";
import { useSharedApi } from "../support/api.ts";
import { expectDocumented, inParallel, readCorpus } from "../support/corpora.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Receiver, startReceiver, verifyReceived } from "../support/receiver-server.ts";
import { createEndpoint, createTenant, expectRefusal, type Tenant } from "../support/tenant.ts";

interface Case {
  readonly name: string;
  readonly bytes: Buffer<ArrayBuffer>;
}

const CASES = Object.entries(readCorpus<Record<string, string>>("json-test-suite/parsing")).map(
  ([name, text]): Case => ({ name, bytes: Buffer.from(text, "latin1") }),
);
/** Valid JSON that a body may not be, with the words that say so (docs/api-policy.md). */
const REFUSED_BODIES: Readonly<Record<string, string>> = {
  y_object_duplicated_key: "is repeated",
  y_object_duplicated_key_and_value: "is repeated",
  y_object_escaped_null_in_key: "U+0000 is not allowed",
  y_string_null_escape: "U+0000 is not allowed",
};

allowMinutes(5);

const api = useSharedApi({ worker: true });
let receiver: Receiver;
let tenant: Tenant;
let secret: string;

beforeAll(async () => {
  receiver = await startReceiver();
  tenant = await createTenant(api);
  ({ secret } = await createEndpoint(api, tenant, { url: receiver.url, events: ["corpus.json"] }));
});
afterAll(async () => {
  await receiver.close();
});

/** Expects a refusal of what JSON forbids, and returns whether the rest was accepted. */
function decide(name: string, answer: Answer, accepted: number): boolean {
  if (answer.status === accepted && !name.startsWith("n_")) {
    return true;
  }
  // Only its depth: beyond 64 levels (docs/reference/limits.md).
  const deep = name === "i_structure_500_nested_arrays" && answer.status === 422;
  const code = answer.status === 413 ? "PAYLOAD_TOO_LARGE" : deep ? "VALIDATION_FAILED" : "INVALID_REQUEST";
  expectRefusal(answer, ERROR_CATALOGUE[code].status, code);
  return false;
}

test("the data of an event is JSON, and arrives byte for byte", async () => {
  const verdicts = await inParallel(CASES, async ({ name, bytes }) => {
    const raw = Buffer.concat([
      Buffer.from('{"type":"corpus.json","data":{"value":'),
      bytes,
      Buffer.from("}}"),
    ]);
    const answer = await tenant.send("POST", "/v1/events", { raw });
    return { name, bytes, id: decide(name, answer, 202) ? String(answer.body["id"]) : undefined };
  });
  const accepted = verdicts.filter(({ id }) => id !== undefined);
  const refused = verdicts.filter(({ id }) => id === undefined).map(({ name }) => name);
  expect(refused.filter((name) => name.startsWith("y_"))).toEqual([]);
  const received = await eventually(async () => {
    await receiver.waitFor(accepted.length);
    const found = new Map(
      receiver.requests.map((request) => [request.headers["x-service-event-id"], request]),
    );
    return accepted.every(({ id }) => found.has(id)) ? found : undefined;
  }, "every event to arrive");
  const changed = accepted.filter(({ bytes, id }) => {
    const request = received.get(id);
    const data = Buffer.concat([Buffer.from(',"data":{"value":'), bytes, Buffer.from("}}")]);
    // Throws if the signature is not valid.
    return request !== undefined && verifyReceived(request, [secret]) !== undefined
      ? !request.rawBody.subarray(-data.length).equals(data)
      : true;
  });
  expect(changed.map(({ name }) => name)).toEqual([]);
  const counts = { accepted: accepted.length, refused: refused.length, differences: 0 };
  expectDocumented("JSONTestSuite, in the `data` of an event", counts);
});

describe("a body is JSON with unique members", () => {
  const ROUTES: Readonly<Record<string, (raw: Case["bytes"]) => Promise<Answer>>> = {
    "of an event": async (raw) => await tenant.send("POST", "/v1/events", { raw }),
    "of an endpoint": async (raw) => await tenant.send("POST", "/v1/webhooks/endpoints", { raw }),
    "of a tenant": async (raw) => {
      const headers = { ...bearer(api.operatorToken), "content-type": "application/json" };
      return await readAnswer(
        await fetch(`${api.adminUrl}/admin/v1/tenants`, { method: "POST", headers, body: raw }),
      );
    },
  };

  test.each(Object.keys(ROUTES))("%s", async (route) => {
    const send = ROUTES[route] as (typeof ROUTES)[string];
    const verdicts = await inParallel(CASES, async ({ name, bytes }) => {
      const answer = await send(bytes);
      // What is JSON is no such object: the next check says so.
      const accepted = decide(name, answer, 422);
      const why = REFUSED_BODIES[name];
      const known = why !== undefined && String(answer.body["detail"]).includes(why);
      expect({ name, accepted, known }).toMatchObject({
        accepted: name.startsWith("y_") ? !known : accepted,
      });
      return { name, accepted };
    });
    const accepted = verdicts.filter((verdict) => verdict.accepted).length;
    const differences = verdicts.filter(
      (verdict) => !verdict.accepted && verdict.name.startsWith("y_"),
    ).length;
    const counts = { accepted, refused: CASES.length - accepted, differences };
    expectDocumented("JSONTestSuite, as the body of a request", counts);
  });
});

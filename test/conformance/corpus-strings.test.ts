/**
 * The Big List of Naughty Strings (test/corpora) in members, parameters, headers and paths: what is accepted comes back
 * unchanged, and the rest is refused with a code. The portal and the command line show each of them as text.
 */
import { beforeAll, expect, test } from "vitest";
import { ERROR_CATALOGUE, type ErrorCode } from "#domain/errors.ts";
import { type Answer, askOperators } from "../support/answer.ts";
import { useSharedApi } from "../support/api.ts";
import { runSignet } from "../support/command-line.ts";
import { expectDocumented, inParallel, readCorpus } from "../support/corpora.ts";
import { allowMinutes } from "../support/limits.ts";
import { type PortalVisitor, signInToPortal } from "../support/portal.ts";
import {
  createEndpoint,
  createTenant,
  type Json,
  publish,
  type Tenant,
  WEBHOOK_SCOPES,
} from "../support/tenant.ts";

const STRINGS = [...new Set(readCorpus<readonly string[]>("naughty-strings/strings"))];
const ENDPOINTS = "/v1/webhooks/endpoints";
const EVENT: Json = { type: "corpus.strings", data: {} };

allowMinutes(5);

const api = useSharedApi();
let tenant: Tenant;
let visitor: PortalVisitor;
let endpoint: string;

beforeAll(async () => {
  tenant = await createTenant(api, [
    ...WEBHOOK_SCOPES,
    "portal:sign_in",
    "credentials:read",
    "credentials:write",
    "ssf:manage",
    "ssf:read",
  ]);
  await api.admin("PATCH", `/tenants/${tenant.tenantId}/limits`, { event_types: 2_000 });
  ({ id: endpoint } = await createEndpoint(api, tenant, { events: ["*"] }));
  visitor = await signInToPortal(api, tenant.token);
});

/** One place of a request, and where the response has the text again. */
interface Place {
  readonly send: (text: string, index: number) => Promise<Answer>;
  readonly back?: (answer: Answer) => unknown;
}

const member = (answer: Answer, name: string): unknown => answer.body[name];
const query = (path: string) => async (text: string) => await tenant.get(path + encodeURIComponent(text));
const patch = async (body: Json): Promise<Answer> =>
  await tenant.send("PATCH", `${ENDPOINTS}/${endpoint}`, { body });
const operators = async (method: string, path: string, body?: Json): Promise<Answer> =>
  await askOperators({ adminUrl: api.adminUrl, token: api.operatorToken }, method, path, body);

const PLACES: Readonly<Record<string, Place>> = {
  "texts of an endpoint": {
    send: async (text) =>
      await tenant.send("PATCH", `${ENDPOINTS}/${endpoint}`, {
        raw: `{"description":${JSON.stringify(text)},"metadata":{"text":${JSON.stringify([text])},${JSON.stringify(text)}:1}}`,
      }),
    back: ({ body: { description, metadata } }) => {
      const { text, ...names } = metadata as Readonly<Record<string, unknown>>;
      const back = new Set([description, ...(text as string[]), ...Object.keys(names)]);
      return back.size === 1 ? description : [...back];
    },
  },
  "value of a header": {
    send: async (text) => await patch({ headers: { "X-Text": text } }),
    back: (answer) => (member(answer, "headers") as Json)["X-Text"],
  },
  "name of a header": {
    send: async (text) =>
      await tenant.send("PATCH", `${ENDPOINTS}/${endpoint}`, {
        raw: `{"headers":{${JSON.stringify(text)}:"a"}}`,
      }),
    back: (answer) => Object.keys(member(answer, "headers") as Json)[0],
  },
  "event type of an endpoint": {
    send: async (text) => await patch({ events: [text] }),
    back: (answer) => (member(answer, "events") as string[])[0],
  },
  "URL of an endpoint": { send: async (url) => await patch({ url }) },
  "value in a filter": {
    send: async (text) => await patch({ filter: { "data.text": text } }),
    back: (answer) => (member(answer, "filter") as Json)["data.text"],
  },
  "path in a filter": {
    send: async (text) =>
      await tenant.send("PATCH", `${ENDPOINTS}/${endpoint}`, {
        raw: `{"filter":{${JSON.stringify(text)}:1}}`,
      }),
    back: (answer) => Object.keys(member(answer, "filter") as Json)[0],
  },
  "texts of an event type": {
    send: async (text, index) =>
      await tenant.post("/v1/webhooks/event-types", {
        name: `corpus.string_${index}`,
        description: text,
        schema: { title: text, properties: { text: { const: text } } },
      }),
    back: ({ body: { description, schema } }) =>
      description === (schema as Json)["title"] ? description : schema,
  },
  "name of an event type": {
    send: async (name) => await tenant.post("/v1/webhooks/event-types", { name }),
    back: (answer) => member(answer, "name"),
  },
  "type of an event": { send: async (type) => await tenant.post("/v1/events", { ...EVENT, type }) },
  "id of an event": {
    send: async (id) => {
      const { status, body } = await tenant.post("/v1/events", { ...EVENT, id });
      return await tenant.get(
        status === 202 ? `/v1/events/${String(body["id"])}` : `/v1/events?id=${encodeURIComponent(id)}`,
      );
    },
    back: (answer) => member(answer, "source_id"),
  },
  "value in the data of an event": {
    send: async (text) =>
      await tenant.get(`/v1/events/${await publish(tenant, { ...EVENT, data: { text } })}`),
    back: (answer) => (member(answer, "data") as Json)["text"],
  },
  "name of a credential": {
    send: async (name) =>
      await tenant.send("PATCH", `/v1/credentials/${tenant.credentialId}`, { body: { name } }),
    back: (answer) => member(answer, "name"),
  },
  "filter by metadata": { send: query(`${ENDPOINTS}?metadata[text]=`) },
  "filter by event type": { send: query("/v1/events?event_type=") },
  "filter by state": { send: query("/v1/webhooks/deliveries?state=") },
  "cursor of a list": { send: query("/v1/events?cursor=") },
  "start of a range": { send: query("/v1/events?from=") },
  "name of a parameter": {
    send: async (text) => await tenant.get(`/v1/events?${encodeURIComponent(text)}=1`),
  },
  "id in a path": { send: query("/v1/events/") },
  "name in a path": { send: query("/v1/webhooks/event-types/") },
  "client id of a token request": {
    send: async (client_id) =>
      await api.token({ grant_type: "client_credentials", client_id, client_secret: client_id }),
  },
  "scope of a token request": {
    send: async (scope) =>
      await api.token({
        grant_type: "client_credentials",
        client_id: tenant.clientId,
        client_secret: tenant.clientSecret,
        scope,
      }),
  },
  "name of a tenant": {
    send: async (name) => await operators("POST", "/tenants", { name, region: "eu" }),
    back: (answer) => member(answer, "name"),
  },
  "name of a role": {
    send: async (name) =>
      await operators("POST", `/tenants/${tenant.tenantId}/roles`, { name, scopes: ["webhooks:read"] }),
    back: (answer) => member(answer, "name"),
  },
  "search of operators": {
    send: async (text) => await operators("GET", `/find?q=${encodeURIComponent(text)}`),
  },
};

/** Expects that a response is a success with the text, or a refusal with its code. @returns whether it is a success */
function decide(text: string, answer: Answer, { back = () => text }: Place): boolean {
  const accepted = answer.status < 300;
  const { code, error } = answer.body as { readonly code?: ErrorCode; readonly error?: string };
  // Token requests have the codes of OAuth.
  const statuses =
    code === undefined ? (error === undefined ? [] : [400, 401]) : [ERROR_CATALOGUE[code].status];
  const refused = answer.status < 500 && statuses.includes(answer.status);
  expect({ text, back: accepted ? back(answer) : text, decided: accepted || refused }).toEqual({
    text,
    back: text,
    decided: true,
  });
  return accepted;
}

const counts = { accepted: 0, refused: 0, differences: 0 };

test.each(Object.keys(PLACES))("as the %s, each comes back or is refused", async (name) => {
  const place = PLACES[name] as Place;
  const verdicts = await inParallel(STRINGS, async (text, index) =>
    decide(text, await place.send(text, index), place),
  );
  const accepted = verdicts.filter(Boolean).length;
  counts.accepted += accepted;
  counts.refused += verdicts.length - accepted;
});

test("the counts are those of the documentation", () => {
  expectDocumented("Big List of Naughty Strings", counts);
});

/** Returns how often a page has the characters that could end a text or an attribute, but for those that isolate texts. */
function marks({ status, text }: Answer): readonly number[] {
  const page = text.replaceAll(/<\/?bdi>/g, "");
  return [status, ...["<", ">", '"'].map((character) => page.split(character).length)];
}

/** Returns the strings in groups, each of which fits into a description. */
function groups(): readonly (readonly string[])[] {
  const all: string[][] = [[]];
  for (const text of STRINGS) {
    if (JSON.stringify([...(all.at(-1) ?? []), text]).length > 900) {
      all.push([]);
    }
    all.at(-1)?.push(text);
  }
  return all;
}

test("a page of the portal has the same tags and attributes with each of them", async () => {
  const pages = async (texts: readonly string[]): Promise<unknown> => {
    // Nothing is delivered: the endpoint's page would list it.
    const { status } = await patch({
      description: `:${texts.join("\n")}`,
      metadata: { texts },
      events: ["corpus.others"],
    });
    const id = await publish(tenant, { ...EVENT, data: { texts } });
    const answers = [
      await visitor.get(`/portal/endpoints/${endpoint}`),
      await visitor.get(`/portal/events/${id}`),
    ];
    return [status, ...answers.map(marks)];
  };
  for (const texts of groups()) {
    const plain = await pages(texts.map((text) => (text === "" ? "" : "plain")));
    expect({ texts, marks: await pages(texts) }).toEqual({ texts, marks: plain });
  }
  const search = async (text: string): Promise<string> =>
    marks(await visitor.get(`/portal/search?q=${encodeURIComponent(text)}`)).join();
  // Nothing found, nothing to look for, a text that is too long, and an event with this id: a redirect without a body.
  const known = [...(await Promise.all(["plain", " ", "a".repeat(300)].map(search))), "303,1,1,1"];
  const found = await inParallel(STRINGS, search);
  expect(STRINGS.filter((_text, at) => !known.includes(found[at] ?? ""))).toEqual([]);
});

test("the command line prints none of them as control characters", async () => {
  const id = await publish(tenant, {
    ...EVENT,
    data: Object.fromEntries(STRINGS.map((text, at) => [`n${at}`, text])),
  });
  const { clientId, clientSecret } = tenant;
  const asTenant = {
    SIGNET_API_URL: api.publicUrl,
    SIGNET_CLIENT_ID: clientId,
    SIGNET_CLIENT_SECRET: clientSecret,
  };
  const shown = await runSignet(["event", "show", id, "--json"], {}, { asTenant });
  expect(shown).toMatchObject({ code: 0, stderr: "" });
  expect(Object.values((JSON.parse(shown.stdout) as { readonly data: Json }).data)).toEqual(STRINGS);
  for (const line of [
    ["event", "show", id],
    ["event-type", "list", "--limit", "100"],
  ]) {
    const run = await runSignet(line, {}, { asTenant });
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(run.stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
  }
});

/**
 * The service passes a publisher's JSON through: every byte of `data` and `metadata` arrives as
 * written (contract 6.1).
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RawJson, SignetClient } from "#lib/client/index.ts";
import { useSharedApi } from "#test/support/api.ts";
import { runSignet } from "#test/support/command-line.ts";
import { eventually } from "#test/support/eventually.ts";
import { type Receiver, startReceiver, verifyReceived } from "#test/support/receiver-server.ts";
import { createTenant, type Json, listAll, rows, sql, type Tenant } from "#test/support/tenant.ts";

const SPELLINGS: readonly [string, string][] = [
  ["1.0 and similar numbers", '{"a":1.0,"b":-0.0,"c":1E+2,"d":0.10}'],
  ["2^60 and digits beyond a double", '{"a":1152921504606846976,"b":3.14159265358979323846264338327950288}'],
  ["1e400, too large for a double", '{"a":1e400,"b":-1e-400}'],
  ["2^53 + 1 and a whole number with a point", '{"a":9007199254740993,"b":1.0}'],
  ["the order of members", '{"z":1,"a":2,"10":3,"2":4}'],
  ["a duplicate member", '{"a":1,"a":2}'],
  ["names with a meaning in JavaScript", '{"__proto__":{"x":1},"constructor":1,"toJSON":2,"":3}'],
  ["escapes", '{"\\u0061":"\\u00e9\\/\\b\\f\\n\\r\\t\\"\\\\\\u2028\\u003c"}'],
  ["escaped NUL and lone surrogates", '{"a":"\\u0000\\ud800\\uDFFF"}'],
  ["letters of several planes", '{"ключ":"é 漢字 \u{1f600} \u2028\u2029\u00a0\ufeff"}'],
  ["white space inside", '{ "a" :\t[ 1 ,\n 2 ] ,\r\n "b" : { } }'],
  ["a script's end tag", '{"a":"</script><!--"}'],
  ["an empty object", "{}"],
];
const METADATA = '{"z":1.0,"a":1152921504606846976,"e":"\\u00e9","n":1e400, "2":[ ],"1":null}';

const api = useSharedApi({ worker: true });
let receiver: Receiver;
let tenant: Tenant;
let secret: string;
/** Event ids in the order of the spellings, by way: alone, in a batch, by client library, by command line. */
let alone: string[];
let batched: string[];
let byLibrary: string[];
let byCommand: string[];
const WAYS = 4;

async function register(url: string): Promise<Json> {
  const raw = `{"url":"${url}","events":["*"],"metadata":  ${METADATA}  }`;
  const { status, body, text } = await tenant.send("POST", "/v1/webhooks/endpoints", { raw });
  expect({ status, text }).toEqual({ status: 201, text: expect.stringContaining(`"metadata":${METADATA}}`) });
  return body;
}

async function untilActive({ id }: Json): Promise<void> {
  const path = `/v1/webhooks/endpoints/${String(id)}`;
  await eventually(
    async () => (await tenant.get(path)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
}

async function publishWithLibrary(): Promise<string[]> {
  const { clientId, clientSecret } = tenant;
  const signet = new SignetClient({ baseUrl: api.publicUrl, clientId, clientSecret });
  const [[, first] = ["", ""], ...others] = SPELLINGS;
  const { id } = await signet.events.publish({ type: "a.b", data: new RawJson(` ${first}\n`) });
  const rest = await signet.events.publishBatch(
    others.map(([, data]) => ({ type: "a.b", data: new RawJson(data) })),
  );
  return [id, ...rest.map((item) => item.id ?? JSON.stringify(item.error))];
}

async function publishWithCommands(): Promise<string[]> {
  const asTenant = {
    SIGNET_API_URL: api.publicUrl,
    SIGNET_CLIENT_ID: tenant.clientId,
    SIGNET_CLIENT_SECRET: tenant.clientSecret,
  };
  const ids: string[] = [];
  for (const [, data] of SPELLINGS) {
    const run = await runSignet(["event", "publish", "a.b", "--data", data, "--json"], {}, { asTenant });
    expect(run).toMatchObject({ code: 0, stderr: "" });
    ids.push((JSON.parse(run.stdout) as { readonly id: string }).id);
  }
  return ids;
}

beforeAll(async () => {
  receiver = await startReceiver();
  tenant = await createTenant(api);
  const endpoint = await register(receiver.url);
  secret = String(endpoint["secret"]);
  await untilActive(endpoint);
  receiver.clear();
  const disabled = await register("http://127.0.0.1:19999/disabled");
  await sql(api, "UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [disabled["id"]]);
  const event = (data: string): string => `{"type":"a.b","data": ${data} }`;
  alone = [];
  for (const [, data] of SPELLINGS) {
    const { body } = await tenant.send("POST", "/v1/events", { raw: event(data) });
    alone.push(String(body["id"]));
  }
  const raw = `{"events":[${SPELLINGS.map(([, data]) => event(data)).join()}]}`;
  const batch = await tenant.send("POST", "/v1/events", { raw });
  batched = (batch.body["data"] as Json[]).map(({ id }) => String(id));
  byLibrary = await publishWithLibrary();
  byCommand = await publishWithCommands();
  await receiver.waitFor(WAYS * SPELLINGS.length);
});
afterAll(async () => {
  await receiver.close();
});

/** Returns the body that the receiver got for an event. */
function bodyOf(eventId: string | undefined): string {
  const requests = receiver.requests.filter(({ headers }) => headers["x-service-event-id"] === eventId);
  expect(requests).toHaveLength(1);
  const [request] = requests;
  if (request === undefined) {
    throw new Error(`nothing received for ${eventId}`);
  }
  verifyReceived(request, [secret]);
  return request.rawBody.toString("utf8");
}

describe.each(SPELLINGS.map(([name, data], index) => ({ name, data, index })))("$name", ({ data, index }) => {
  test("reaches the receiver byte for byte, with the metadata", () => {
    for (const id of [alone[index], batched[index], byLibrary[index], byCommand[index]]) {
      expect(bodyOf(id).split(',"metadata":')[1]).toBe(`${METADATA},"data":${data}}`);
    }
  });

  test("is shown byte for byte, as an event and as a dead letter", async () => {
    const id = alone[index] ?? "";
    const event = await tenant.get(`/v1/events/${id}`);
    expect(event.text.slice(event.text.indexOf(',"data":'))).toBe(`,"data":${data}}`);
    const letters = await tenant.get(`/v1/webhooks/dlq?event_id=${id}`);
    expect(letters.text).toContain(`"event":${event.text}}],"next_cursor":null}`);
  });
});

test("the metadata is shown as it was written", async () => {
  const list = await tenant.get("/v1/webhooks/endpoints");
  expect(list.text.split(`"metadata":${METADATA}}`)).toHaveLength(3);
  const [endpoint] = rows(list);
  const { text } = await tenant.get(`/v1/webhooks/endpoints/${String(endpoint?.["id"])}`);
  expect(text).toContain(`"metadata":${METADATA}}`);
});

test("a list of events shows each of them as it was written", async () => {
  const { text } = await tenant.get("/v1/events?limit=100");
  for (const [, data] of SPELLINGS) {
    expect(text.split(`"data":${data}}`).length).toBeGreaterThanOrEqual(3);
  }
  expect(await listAll(tenant, "/v1/events", 7)).toHaveLength(WAYS * SPELLINGS.length);
});

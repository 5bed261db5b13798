/** Every place that shows or accepts endpoint settings has each setting of the table. */
import { NO_ACTIVITY } from "#database/repositories/webhooks/delivery-counts.ts";
import { describe, expect, test } from "vitest";
import { changesOf, registrationHash, settingsOf } from "#api/endpoint-settings.ts";
import {
  Endpoint,
  EndpointPatch,
  NewEndpoint,
  RegisteredEndpoint,
  toEndpointJson,
} from "#api/schemas/endpoints.ts";
import { endpointCommand } from "#cli/client/endpoint.ts";
import type { CliContext } from "#cli/context.ts";
import {
  type Endpoint as EndpointRow,
  ENDPOINT_COLUMNS,
} from "#database/repositories/endpoints/endpoints.ts";
import { ENDPOINT_SETTINGS } from "#domain/endpoint-settings.ts";
import { RawJson } from "#http/strict-json.ts";
import { EndpointForm } from "#portal/pages/endpoint/endpoint-form.ts";
import { settingsFields } from "#portal/pages/endpoint/endpoint-settings.ts";
import { FieldErrors } from "#portal/problems.ts";
import { html } from "#portal/html.ts";

const WIRE_NAMES = ENDPOINT_SETTINGS.map(({ wire }) => wire);
const SETTINGS = {
  url: "https://example.com/hooks",
  event_types: ["inference.completed"],
  metadata: '{"one": 1.0}',
  description: 'a "first" one',
  filter: '{"data.amount":{"$gte":100}}',
  headers: '{"X-Team":"ml"}',
  authentication: '{"type":"header","name":"Authorization","updated_at":"2026-01-01T00:00:00.000Z"}',
  require_echo: true,
  rate_limit: 20,
};
const ROW: EndpointRow = {
  ...SETTINGS,
  id: "ep_06gzn7ec0ysdm9zghk69h3ax",
  tenant_id: "ten_06gzn7ec0ysdm9zghk69h3ax",
  state: "ACTIVE",
  disabled_reason: null,
  generation: 1,
  request_version: 1,
  ssf_stream: null,
  verification_state: "VERIFIED",
  verification_attempts: 1,
  verification_last_error: null,
  verification_next_attempt_at: null,
  verified_at: new Date(0),
  verified_by: "status",
  created_at: new Date(0),
  updated_at: new Date(0),
};

describe("every setting of the table", () => {
  test("is in the schemas of requests and responses", () => {
    expect(Object.keys(NewEndpoint.properties)).toEqual(WIRE_NAMES);
    expect(Object.keys(EndpointPatch.properties)).toEqual(WIRE_NAMES);
    expect(NewEndpoint.required).toEqual(["url", "events"]);
    expect(EndpointPatch.required ?? []).toEqual([]);
    for (const schema of [Endpoint, RegisteredEndpoint]) {
      expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(WIRE_NAMES));
      expect(schema.required).toEqual(expect.arrayContaining(WIRE_NAMES));
    }
  });

  test("is read from its column", () => {
    const columns = ENDPOINT_COLUMNS.text.split(", ");
    expect(columns).toEqual(expect.arrayContaining(["event_types", "require_echo"]));
    expect(columns).toEqual(expect.arrayContaining(ENDPOINT_SETTINGS.map(({ key }) => key)));
  });

  test("is an option of the command line, and flags can be unset", () => {
    const update = endpointCommand({} as CliContext).commands.find((command) => command.name() === "update");
    const options = update?.options.map(({ long }) => long);
    for (const setting of ENDPOINT_SETTINGS) {
      expect(options).toContain(
        "option" in setting ? setting.option.flags.split(" ")[0] : `--${setting.wire}`,
      );
    }
    for (const { option } of ENDPOINT_SETTINGS.filter((setting) => setting.kind === "flag")) {
      expect(options).toContain(option.flags.replace("--", "--no-"));
    }
  });

  test("is a field of the portal's form", () => {
    expect(Object.keys(EndpointForm.properties)).toEqual(expect.arrayContaining(WIRE_NAMES));
    const errors = new FieldErrors(undefined);
    const { text } = html`${settingsFields({}, errors, true)} ${settingsFields({}, errors, false)}`;
    for (const { wire } of ENDPOINT_SETTINGS.filter((setting) => "field" in setting)) {
      expect(text).toContain(`name="${wire}"`);
    }
  });

  test("is in the wire form, as stored; absent ones are null or empty", () => {
    expect(JSON.parse(toEndpointJson(ROW, ACTIVITY))).toMatchObject({
      url: SETTINGS.url,
      events: SETTINGS.event_types,
      metadata: { one: 1 },
      description: SETTINGS.description,
      filter: { "data.amount": { $gte: 100 } },
      headers: { "X-Team": "ml" },
      authentication: { type: "header", name: "Authorization" },
      require_echo: true,
      rate_limit: 20,
    });
    expect(toEndpointJson(ROW, ACTIVITY)).toMatch(/,"metadata":\{"one": 1\.0\}\}$/);
    const bare = { metadata: null, description: null, filter: null, headers: null, authentication: null };
    expect(JSON.parse(toEndpointJson({ ...ROW, ...bare, rate_limit: null }, ACTIVITY))).toMatchObject({
      ...bare,
      headers: {},
      rate_limit: null,
    });
  });
});

const ACTIVITY = { ...NO_ACTIVITY, recent: { since: new Date(0), attempts: 0, failed: 0 } };
const BODY = { url: "https://example.com/hooks", events: ["inference.completed"] };
const METADATA = new RawJson("object", '{"one": 1.0}');

test("a registration has every setting, a change only those that were given", () => {
  const none = { metadata: null, description: null, filter: null, headers: null, authentication: null };
  expect(settingsOf(BODY)).toEqual({
    url: BODY.url,
    event_types: BODY.events,
    ...none,
    require_echo: false,
    rate_limit: null,
  });
  expect(changesOf({ metadata: METADATA, require_echo: false, rate_limit: null })).toEqual({
    metadata: METADATA.text,
    require_echo: false,
    rate_limit: null,
  });
});

test.each<[string, Partial<Parameters<typeof registrationHash>[0]>, string]>([
  ["url and events only", {}, "eeaccf0794e9c1a83ea53c40a6601a30edaff7d184378ac56bc9ebe2d20e84c2"],
  [
    "metadata and description",
    { metadata: METADATA, description: "first" },
    "124c989d4954ef16c08ae7fd4a08bf2f65db9cd102dd87aca332e114ba3b254f",
  ],
  [
    "null for every optional setting",
    {
      metadata: new RawJson("null", "null"),
      description: null,
      filter: null,
      rate_limit: null,
      headers: null,
      authentication: null,
    },
    "7fded17ce377d8e8a949c3a6d7743a7114cfe2214702b534b92625a1e2bd7121",
  ],
  [
    "a filter",
    { filter: { "data.amount": { $gte: 100 } } },
    "eb87bd951dded5add168f8672922fcd5ec11dbf3fb86f85f8a747c07d37b5077",
  ],
  [
    "echo and rate",
    { require_echo: false, rate_limit: 20 },
    "bfd93d8157b903ad51abcafc8273b0c792b04755c574b611fcdfdfb0d1b49d07",
  ],
  [
    "headers",
    { headers: { "X-Team": "ml" }, require_echo: true },
    "b204d23837f3fcee9f0db4ae9776e8d21a0bfb7d0d43f59a7307fe79d6bd973b",
  ],
  [
    "everything",
    {
      metadata: METADATA,
      description: "first",
      filter: { type: "a.b" },
      headers: { "X-Team": "ml" },
      authentication: { type: "header", value: "secret", name: "Authorization" },
      require_echo: true,
      rate_limit: 20,
    },
    "40500534519ce990a6073f25d7d4b57adb615d0e967d66646741a1b2869fa33f",
  ],
])("the hash for an Idempotency-Key stays the same across versions: %s", (_, settings, hash) => {
  expect(registrationHash({ ...BODY, ...settings }).toString("hex")).toBe(hash);
});

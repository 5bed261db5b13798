/**
 * The settings of an endpoint that its tenant may change. This table drives the row's columns, the schemas of requests
 * and responses, the wire form, the options of the command line, and the portal's form and page.
 *
 * A setting of the kinds `text`, `number` and `flag` needs a row here and a migration, and code only where it has an
 * effect. The other kinds have code of their own in each of those places.
 */

/** Types of the stored values, by kind. */
interface Values {
  url: string;
  events: readonly string[];
  /** The JSON text of an object. */
  object: string | null;
  /** JSON text: names and values of request headers. */
  headers: string | null;
  /** JSON text, without secrets. */
  authentication: string | null;
  text: string | null;
  number: number | null;
  flag: boolean;
}

interface Option {
  /** Flags of the option, for instance `--events <types>`. */
  readonly flags: string;
  readonly meaning: string;
  /** Position among the options. */
  readonly place: number;
}

interface Field {
  readonly label: string;
  /** Text with code in backticks. */
  readonly help?: string;
  /** Position in the form and on the endpoint's page. */
  readonly place: number;
  /** Whether the form always shows the field, and requires it. The other fields are collapsed. */
  readonly basic?: true;
}

interface Named {
  /** Name of the column. */
  readonly key: string;
  /** Name in the API, the command line's JSON and the portal's form. */
  readonly wire: string;
  /**
   * How the hash of a registration contains the value. Stored hashes must match the same request after an upgrade.
   *
   * - `value`: always; null if absent
   * - `given`: the value, if given
   * - `named`: name and value, if given; for every new setting
   * - `request`: last, together, if headers or authentication are given
   */
  readonly hash: "value" | "given" | "named" | "request";
  /** Whether a registration must contain it. */
  readonly required?: true;
  /** Undefined if no option, or an own one, sets it. */
  readonly option?: Option;
}

/** A setting with code of its own in the API. */
interface OwnSetting extends Named {
  readonly kind: "url" | "events" | "object" | "headers" | "authentication";
  readonly field?: Field;
}

/** A text for people; null for none. */
interface TextSetting extends Named {
  readonly kind: "text";
  readonly maxLength: number;
  readonly field: Field & { readonly fact: readonly [label: string, value: (text: string | null) => string] };
}

/** A whole number; null for no limit. */
interface NumberSetting extends Named {
  readonly kind: "number";
  readonly minimum: number;
  readonly maximum: number;
  readonly description: string;
  readonly examples: readonly number[];
  readonly field: Field & {
    readonly fact: readonly [label: string, value: (number: number | null) => string];
  };
}

/** A boolean; false by default. */
interface FlagSetting extends Named {
  readonly kind: "flag";
  readonly description: string;
  /** `unset` is the meaning of the option's negation, for changes. */
  readonly option: Option & { readonly unset: string };
  readonly field: Field & {
    readonly choices: { readonly no: string; readonly yes: string };
    readonly fact: readonly [label: string, value: (flag: boolean) => string];
  };
}

/** The settings, in the order of the schemas and of compliance entries. */
export const ENDPOINT_SETTINGS = [
  { key: "url", wire: "url", kind: "url", hash: "value", required: true },
  {
    key: "event_types",
    wire: "events",
    kind: "events",
    hash: "value",
    required: true,
    option: { flags: "--events <types>", meaning: "event types, separated by commas; * for all", place: 1 },
  },
  {
    key: "metadata",
    wire: "metadata",
    kind: "object",
    hash: "value",
    option: {
      flags: "--metadata <json>",
      meaning: "sent with every delivery; JSON, @file, or - for standard input",
      place: 3,
    },
    field: { label: "Metadata", help: "Your own JSON object, sent with every delivery.", place: 3 },
  },
  {
    key: "description",
    wire: "description",
    kind: "text",
    hash: "value",
    maxLength: 1_024,
    option: { flags: "--description <text>", meaning: "description for people", place: 2 },
    field: {
      label: "Description",
      fact: ["Description", (text) => text ?? "–"],
      place: 0,
      basic: true,
    },
  },
  {
    // Selects events; null accepts all.
    key: "filter",
    wire: "filter",
    kind: "object",
    hash: "given",
    option: {
      flags: "--filter <json>",
      meaning: 'condition on the events, for instance \'{"data.amount":{"$gte":100}}\'',
      place: 4,
    },
    field: {
      label: "Filter",
      help: 'Only matching events are delivered. A query document over `type` and `data`, for instance `{"data.amount": {"$gte": 100}}`.',
      place: 1,
    },
  },
  {
    key: "headers",
    wire: "headers",
    kind: "headers",
    hash: "request",
    option: {
      flags: "--header <line...>",
      meaning: 'HTTP header sent with every delivery, "Name: value"',
      place: 5,
    },
    field: {
      label: "Custom headers",
      help: "One `Name: value` per line, at most 16. Everyone who may read the endpoint can see them, so enter secrets under authentication below.",
      place: 2,
    },
  },
  {
    key: "authentication",
    wire: "authentication",
    kind: "authentication",
    hash: "request",
    option: {
      flags: "--authentication <json>",
      meaning: "authentication at the receiver; use @file, because it contains secrets",
      place: 6,
    },
  },
  {
    key: "require_echo",
    wire: "require_echo",
    kind: "flag",
    hash: "named",
    description: "Only a response that contains the ping's challenge verifies the endpoint",
    option: {
      flags: "--require-echo",
      meaning: "require the ping's challenge in the answer for verification",
      unset: "accept any answer with 200 for verification",
      place: 8,
    },
    field: {
      label: "Verification",
      choices: { no: "any answer with 200", yes: "200 and the ping's challenge in the answer" },
      help: "Some hosts answer 200 to everything. The challenge shows that the receiver read the ping.",
      fact: ["Verification", (echo) => (echo ? "200 and the ping's challenge" : "any answer with 200")],
      place: 5,
    },
  },
  {
    key: "rate_limit",
    wire: "rate_limit",
    kind: "number",
    hash: "named",
    minimum: 1,
    maximum: 1_000,
    description: "Maximum deliveries per second; the others wait. Null for no limit",
    examples: [20],
    option: {
      flags: "--rate-limit <number>",
      meaning: "maximum deliveries per second, 1 to 1000; null for no limit",
      place: 7,
    },
    field: {
      label: "Deliveries per second",
      help: "Maximum, 1 to 1000. Deliveries above the limit wait.",
      fact: [
        "Rate",
        (rate) =>
          rate === null ? "no limit" : `at most ${rate} ${rate === 1 ? "delivery" : "deliveries"} per second`,
      ],
      place: 4,
    },
  },
] as const satisfies readonly (OwnSetting | TextSetting | NumberSetting | FlagSetting)[];

/** A row of the table. */
export type EndpointSetting = (typeof ENDPOINT_SETTINGS)[number];

/** The settings as stored. */
export type EndpointSettings = {
  readonly [Setting in EndpointSetting as Setting["key"]]: Values[Setting["kind"]];
};

/** Returns the value of a setting that a registration does not contain. */
export function defaultOf({ kind }: EndpointSetting): false | null {
  return kind === "flag" ? false : null;
}

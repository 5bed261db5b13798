/** `signet endpoint create | list | show | update | enable | disable | verify | test | delete | secret`. */
import { Command, Option } from "commander";
import { ENDPOINT_SETTINGS } from "#domain/endpoint-settings.ts";
import type { Endpoint as EndpointShown, EndpointChange } from "#lib/client/api-types.ts";
import type { CliContext } from "../context.ts";
import { printResource } from "../output.ts";
import {
  asTenant,
  jsonArgument,
  objectArgument,
  objectOrNull,
  membersOf,
  wholeNumber,
  withExamples,
  words,
} from "./command.ts";
import { misused } from "../exit-codes.ts";
import { given } from "./given.ts";
import { endpointSecretCommand } from "./endpoint-secret.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

interface TestOptions extends ClientOptions {
  readonly type?: string;
  readonly data?: string;
}

function headersOf(lines: readonly string[]): Record<string, string> | null {
  if (lines.length === 1 && lines[0] === "null") {
    return null;
  }
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? [];
      if (name === undefined || value === undefined) {
        throw misused(`--header takes "Name: value", not ${line}`);
      }
      return [name, value];
    }),
  );
}

const orNull = <Value>(value: string, read: (value: string) => Value): Value | null =>
  value === "null" ? null : read(value);

/** The options of the settings. The URL has its own. */
const SETTING_OPTIONS = ENDPOINT_SETTINGS.filter((setting) => "option" in setting)
  .toSorted((one, other) => one.option.place - other.option.place)
  .map(({ wire, kind, option }) => ({ wire, kind, option: new Option(option.flags, option.meaning) }));

type OptionKind = (typeof SETTING_OPTIONS)[number]["kind"];

/** Reads the argument of an option, by the kind of its setting; `null` removes an optional one. */
const READERS: Readonly<Record<OptionKind, (option: string, value: never) => unknown>> = {
  events: (_, value: string) => words(value),
  text: (_, value: string) => orNull(value, String),
  object: objectOrNull,
  headers: (_, lines: readonly string[]) => headersOf(lines),
  authentication: jsonArgument,
  number: (option, value: string) => orNull(value, () => wholeNumber(option, value)),
  flag: (_, value: boolean) => value,
};

/** Converts the options to the API's members. */
async function settingsOf(options: ClientOptions): Promise<Omit<EndpointChange, "url">> {
  const settings: Record<string, unknown> = {};
  for (const { wire, kind, option } of SETTING_OPTIONS) {
    const value = (options as Readonly<Record<string, unknown>>)[option.attributeName()];
    if (value !== undefined) {
      settings[wire] = await READERS[kind](`${option.long}`, value as never);
    }
  }
  return settings;
}

function withSettings(command: Command): Command {
  for (const { option } of SETTING_OPTIONS) {
    command.addOption(option);
  }
  return command;
}

function addCreation(endpoint: Command, context: CliContext): void {
  const create = withSettings(
    endpoint.command("create <url>").description("register an endpoint; its secret is shown only once"),
  );
  asTenant<ClientOptions>(create, context, async ({ signet, target, options }) => {
    const settings = { events: ["*"], ...(await settingsOf(options)) };
    printResource(context, await signet.endpoints.create({ url: target, ...settings }), options);
  });
  withExamples(
    create,
    "signet endpoint create https://example.com/hook --events pipeline.failed,pipeline.completed",
    `signet endpoint create https://example.com/hook --events '*' --metadata '{"team":"ml"}'`,
  );

  // Declare a --no-… option after its positive form; on its own, commander would set the option to true by default.
  const update = withSettings(
    endpoint.command("update <id>").description("change the given settings; `null` removes an optional one"),
  ).option("--url <url>", "new address; it must answer a ping first");
  for (const { option } of ENDPOINT_SETTINGS.filter((setting) => setting.kind === "flag")) {
    update.option(option.flags.replace("--", "--no-"), option.unset);
  }
  asTenant<ClientOptions & { readonly url?: string }>(
    update,
    context,
    async ({ signet, target, options }) => {
      const change = given({ ...(await settingsOf(options)), url: options.url });
      if (Object.keys(change).length === 0) {
        throw misused("Nothing to change: give at least one setting.");
      }
      printResource(context, await signet.endpoints.update(target, change), options);
    },
  );
  withExamples(update, "signet endpoint update ep_… --events pipeline.failed --filter null");
}

function addReads(endpoint: Command, context: CliContext): void {
  const list = withPages(endpoint.command("list").description("list endpoints, newest first"))
    .addOption(new Option("--state <state>", "filter by state").choices(["PENDING", "ACTIVE", "DISABLED"]))
    .addOption(
      new Option("--health <health>", "filter by health").choices([
        "healthy",
        "degraded",
        "failing",
        "unknown",
      ]),
    )
    .option("--metadata <key=value...>", "filter by a member of the metadata, compared as text");
  type Options = PageChoice & {
    readonly state?: EndpointShown["state"];
    readonly health?: EndpointShown["health"]["status"];
    readonly metadata?: readonly string[];
  };
  asTenant<Options>(list, context, async ({ signet, options }) => {
    const { state, health, metadata } = options;
    const filter = {
      ...pageOf(options),
      ...given({ state, health, metadata: membersOf("--metadata", metadata) }),
    };
    const columns = ["id", "state", "health", "url", "events", "created_at", "disabled_reason"];
    await printList(context, signet.endpoints.list(filter), columns, options);
  });
  const show = endpoint.command("show <id>").description("show one endpoint, without its secret");
  asTenant(show, context, async ({ signet, target, options }) => {
    printResource(context, await signet.endpoints.get(target), options);
  });
}

/** `signet endpoint`. */
export function endpointCommand(context: CliContext): Command {
  const endpoint = new Command("endpoint").description("endpoints that a tenant's events are sent to");
  addCreation(endpoint, context);
  addReads(endpoint, context);
  const changes = [
    ["enable", "ping a DISABLED endpoint; it becomes ACTIVE when it answers"],
    ["disable", "stop deliveries to an endpoint; its events become dead letters"],
    ["verify", "send another ping to a PENDING endpoint"],
  ] as const;
  for (const [name, description] of changes) {
    asTenant(
      endpoint.command(`${name} <id>`).description(description),
      context,
      async ({ signet, target, options }) => {
        printResource(context, await signet.endpoints[name](target), options);
      },
    );
  }

  const test = endpoint
    .command("test <id>")
    .description("send a test event to this endpoint only and print its delivery")
    .option("--type <type>", "event type; default: endpoint.test")
    .option("--data <json>", "data of the event: JSON, @file, or - for standard input");
  asTenant<TestOptions>(test, context, async ({ signet, target, options: { type, data, ...output } }) => {
    const event = given({
      type,
      data: data === undefined ? undefined : await objectArgument("--data", data),
    });
    printResource(context, await signet.endpoints.test(target, event), output);
  });

  const remove = endpoint
    .command("delete <id>")
    .description("delete an endpoint and its secrets; pending deliveries are cancelled");
  asTenant(remove, context, async ({ signet, target }) => await signet.endpoints.delete(target));

  endpoint.addCommand(endpointSecretCommand(context));
  return endpoint;
}

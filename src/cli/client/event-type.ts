/** `signet event-type create | list | show | update | versions | delete`. */
import { Command } from "commander";
import type { EventTypeChange } from "../../lib/client/resources/event-types.ts";
import type { CliContext } from "../context.ts";
import { printResource } from "../output.ts";
import { asTenant, objectArgument, wholeNumber, withExamples } from "./command.ts";
import { misused } from "../exit-codes.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

interface TypeOptions extends ClientOptions {
  readonly description?: string;
  readonly schema?: string;
  readonly example?: readonly string[];
  readonly deprecated?: boolean;
  readonly replacedBy?: string;
  readonly schemaVersion?: string;
  readonly archived?: boolean;
}

async function changeOf(options: TypeOptions): Promise<EventTypeChange> {
  const { description, schema, example, deprecated, replacedBy, schemaVersion: version, archived } = options;
  const examples =
    example && (await Promise.all(example.map(async (text) => await objectArgument("--example", text))));
  return given({
    description: description === "null" ? null : description,
    schema: schema === undefined ? undefined : await objectArgument("--schema", schema),
    examples,
    deprecated,
    replaced_by: replacedBy === "null" ? null : replacedBy,
    schema_version:
      version === undefined
        ? undefined
        : version === "none"
          ? null
          : wholeNumber("--schema-version", version),
    archived,
  });
}

function withMembers(command: Command): Command {
  return command
    .option("--description <text>", "for people")
    .option("--schema <json>", "JSON Schema (2020-12) of the data: JSON, @file, or - for standard input")
    .option("--example <json...>", "data as it may look; `signet trigger` sends the first")
    .option("--deprecated", "it will go")
    .option("--replaced-by <type>", "the type that takes its place");
}

/** `signet event-type`. */
export function eventTypeCommand(context: CliContext): Command {
  const type = new Command("event-type").description(
    "the catalogue: which events there are, and what their data is",
  );

  const create = withMembers(type.command("create <name>").description("enter a type"));
  asTenant<TypeOptions>(create, context, async ({ signet, target, options }) => {
    const members = await changeOf(options);
    printResource(context, await signet.eventTypes.create({ name: target, ...members }), options);
  });
  withExamples(
    create,
    `signet event-type create pipeline.failed --description "A run has failed" --example '{"run":7}'`,
  );

  const list = withPages(
    type.command("list").description("list types by name").option("--archived", "archived ones too"),
  );
  asTenant<PageChoice & { readonly archived?: boolean }>(list, context, async ({ signet, options }) => {
    const filter = {
      ...pageOf(options),
      ...(options.archived === true ? { archived: "true" as const } : {}),
    };
    const columns = ["name", "schema_version", "deprecated_at", "replaced_by", "description"];
    await printList(context, signet.eventTypes.list(filter), columns, options);
  });

  const show = type.command("show <name>").description("show one type with its schema and examples");
  asTenant(show, context, async ({ signet, target, options }) => {
    printResource(context, await signet.eventTypes.get(target), options);
  });

  // What takes an option back is declared after it: alone it would be an option that is on.
  const update = withMembers(
    type
      .command("update <name>")
      .description("change what is named; a schema that differs becomes its next version"),
  )
    .option("--no-deprecated", "it stays")
    .option(
      "--schema-version <number>",
      "events are checked against this version from now on; none: not at all",
    )
    .option("--archived", "out of the list; events of it are still taken")
    .option("--no-archived", "into the list again");
  asTenant<TypeOptions>(update, context, async ({ signet, target, options }) => {
    const change = await changeOf(options);
    if (Object.keys(change).length === 0) {
      throw misused("Nothing to change: name at least one member.");
    }
    printResource(context, await signet.eventTypes.update(target, change), options);
  });

  const versions = withPages(
    type.command("versions <name>").description("list versions of its schema, newest first"),
  );
  asTenant<PageChoice>(versions, context, async ({ signet, target, options }) => {
    await printList(
      context,
      signet.eventTypes.versions(target, pageOf(options)),
      ["version", "created_at", "schema"],
      options,
    );
  });

  const remove = type
    .command("delete <name>")
    .description("remove it; its events are taken as they come from then on");
  asTenant(remove, context, async ({ signet, target }) => await signet.eventTypes.delete(target));
  return type;
}

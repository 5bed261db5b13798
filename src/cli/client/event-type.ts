/** `signet event-type create | list | show | update | versions | delete`. */
import { Command } from "commander";
import type { EventTypeChange } from "#lib/client/api-types.ts";
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
    .option("--description <text>", "description for people")
    .option("--schema <json>", "JSON Schema (2020-12) of the data: JSON, @file, or - for standard input")
    .option("--example <json...>", "example data; `signet trigger` sends the first example")
    .option("--deprecated", "mark the type as deprecated")
    .option("--replaced-by <type>", "the type that replaces it");
}

/** `signet event-type`. */
export function eventTypeCommand(context: CliContext): Command {
  const type = new Command("event-type").description("the catalogue of event types and their data");

  const create = withMembers(type.command("create <name>").description("add a type to the catalogue"));
  asTenant<TypeOptions>(create, context, async ({ signet, target, options }) => {
    const members = await changeOf(options);
    printResource(context, await signet.eventTypes.create({ name: target, ...members }), options);
  });
  withExamples(
    create,
    `signet event-type create pipeline.failed --description "A run has failed" --example '{"run":7}'`,
  );

  const list = withPages(
    type.command("list").description("list types by name").option("--archived", "include archived types"),
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

  // Declare a --no-… option after its positive form; on its own, commander would set the option to true by default.
  const update = withMembers(
    type
      .command("update <name>")
      .description("change the given members; a different schema becomes the next version"),
  )
    .option("--no-deprecated", "remove the deprecation")
    .option("--schema-version <number>", "version that events are checked against; none turns the check off")
    .option("--archived", "hide the type from the list; its events are still accepted")
    .option("--no-archived", "show the type in the list again");
  asTenant<TypeOptions>(update, context, async ({ signet, target, options }) => {
    const change = await changeOf(options);
    if (Object.keys(change).length === 0) {
      throw misused("Nothing to change: give at least one member.");
    }
    printResource(context, await signet.eventTypes.update(target, change), options);
  });

  const versions = withPages(
    type.command("versions <name>").description("list versions of a type's schema, newest first"),
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
    .description("delete a type; its events are accepted without a check afterwards");
  asTenant(remove, context, async ({ signet, target }) => await signet.eventTypes.delete(target));
  return type;
}

/** `signet stream create | list | show | update | delete | verify | status | subject`. */
import { Command, Option } from "commander";
import { CAEP_EVENTS, STREAM_STATUSES } from "#domain/security-events.ts";
import type { NewStream, Stream, StreamStatusChange, SubjectIdentifier } from "#lib/client/api-types.ts";
import type { CliContext } from "../context.ts";
import { misused } from "../exit-codes.ts";
import { withTable } from "../list-options.ts";
import { printableJson, printPage, printResource } from "../output.ts";
import { argumentText, asTenant, withExamples, words } from "./command.ts";
import { given } from "./given.ts";
import type { ClientOptions } from "./open-client.ts";

const PUSH = "urn:ietf:rfc:8935";
const EVENT_NAMES = Object.keys(CAEP_EVENTS);

interface SettingOptions extends ClientOptions {
  readonly events?: string;
  readonly description?: string;
  readonly push?: string;
  readonly authorization?: string;
}

/** Returns the URIs of events, which may be given by their names. */
function eventsOf(value: string): readonly string[] {
  const uris: Readonly<Record<string, string>> = CAEP_EVENTS;
  return words(value).map((event) => {
    const uri = event.includes(":") ? event : uris[event];
    if (uri === undefined) {
      throw misused(`--events takes ${EVENT_NAMES.join(", ")} or URIs, not ${event}`);
    }
    return uri;
  });
}

async function settingsOf({ events, description, push, authorization }: SettingOptions): Promise<NewStream> {
  if (authorization !== undefined && push === undefined) {
    throw misused("--authorization needs --push.");
  }
  const header =
    authorization === undefined || authorization === "null"
      ? null
      : (await argumentText("--authorization", authorization)).trim();
  return given({
    events_requested: events === undefined ? undefined : eventsOf(events),
    description,
    delivery:
      push === undefined
        ? undefined
        : {
            method: PUSH,
            endpoint_url: push,
            ...(authorization === undefined ? {} : { authorization_header: header }),
          },
  } as const);
}

function withSettings(command: Command): Command {
  return command
    .option("--push <url>", "the receiver's HTTPS URL; a stream without it is polled")
    .option(
      "--authorization <value>",
      "Authorization header of each push: the value, @file, or - for standard input; null removes it",
    )
    .option("--events <events>", `${EVENT_NAMES.join(", ")}, or URIs; default: all`)
    .option("--description <text>", "description for people");
}

function addChanges(stream: Command, context: CliContext): void {
  const create = withSettings(stream.command("create").description("create a stream of security events"));
  asTenant<SettingOptions>(create, context, async ({ signet, options }) => {
    printResource(context, await signet.streams.create(await settingsOf(options)), options);
  });
  withExamples(
    create,
    "signet stream create --push https://gateway.example/events --authorization @receiver-secret",
    "signet stream create --events session-revoked",
  );

  const update = withSettings(
    stream.command("update <id>").description("change the given settings; the delivery method stays"),
  );
  asTenant<SettingOptions>(update, context, async ({ signet, target, options }) => {
    const change = await settingsOf(options);
    if (Object.keys(change).length === 0) {
      throw misused("Nothing to change: give at least one setting.");
    }
    printResource(context, await signet.streams.update(target, change), options);
  });

  const remove = stream.command("delete <id>").description("delete a stream and its waiting tokens");
  asTenant(remove, context, async ({ signet, target }) => await signet.streams.delete(target));

  const verify = stream
    .command("verify <id>")
    .description("send a verification event, once in 30 seconds")
    .option("--state <text>", "text that the event contains");
  asTenant<ClientOptions & { readonly state?: string }>(verify, context, async (invocation) => {
    const { signet, target, options } = invocation;
    await signet.streams.verify(target, given({ state: options.state }));
  });
}

function addReads(stream: Command, context: CliContext): void {
  const list = withTable(stream.command("list").description("list all streams, oldest first"));
  asTenant<ClientOptions & { readonly wide?: boolean }>(list, context, async ({ signet, options }) => {
    const streams = await signet.streams.list();
    if (options.json === true) {
      context.stdout(`${printableJson(streams, 2)}\n`);
      return;
    }
    const columns = ["stream_id", "method", "endpoint_url", "events", "description", "endpoint_id"];
    printPage(context, { data: streams.map(rowOf) }, columns, options);
  });
  const show = stream.command("show <id>").description("show one stream");
  asTenant(show, context, async ({ signet, target, options }) => {
    printResource(context, await signet.streams.get(target), options);
  });
}

function rowOf({ delivery, events_delivered: events, ...stream }: Stream): object {
  return {
    ...stream,
    method: delivery.method === PUSH ? "push" : "poll",
    endpoint_url: delivery.endpoint_url,
    events: events.map((uri) => uri.slice(uri.lastIndexOf("/") + 1)),
  };
}

function addStatus(stream: Command, context: CliContext): void {
  const status = stream
    .command("status <id>")
    .description("show the status of a stream, or set it")
    .addOption(new Option("--set <status>", "set the status").choices(STREAM_STATUSES))
    .option("--reason <text>", "reason of the status, which receivers see");
  type Options = ClientOptions & {
    readonly set?: StreamStatusChange["status"];
    readonly reason?: string;
  };
  asTenant<Options>(status, context, async ({ signet, target, options }) => {
    const { set, reason } = options;
    if (set === undefined && reason !== undefined) {
      throw misused("--reason needs --set.");
    }
    const shown =
      set === undefined
        ? await signet.streams.status(target)
        : await signet.streams.setStatus(target, given({ status: set, reason }));
    printResource(context, shown, options);
  });
  withExamples(status, "signet stream status ssf_… --set paused --reason maintenance");
}

/** Returns the subject identifier of a noun by its id (docs/ssf.md). @param iss issuer of the tokens */
function subjectOf(id: string, iss: string): SubjectIdentifier {
  // A jti is shorter.
  const [, prefix] = /^(cl|prn|ten)_\w{24}$/.exec(id) ?? [];
  if (prefix === undefined) {
    return { format: "jwt_id", iss, jti: id };
  }
  return prefix === "ten" ? { format: "opaque", id } : { format: "iss_sub", iss, sub: id };
}

function addSubjects(stream: Command, context: CliContext): void {
  const subject = stream
    .command("subject")
    .description("whose events a stream gets; all subjects by default");
  const changes = [
    ["remove", "removeSubject", "send no more events about a subject; a principal includes its credentials"],
    ["add", "addSubject", "send the events about a removed subject again"],
  ] as const;
  for (const [name, method, description] of changes) {
    const command = subject
      .command(`${name} <stream> <subject>`)
      .description(`${description}: a client id, a principal, the tenant, or a token's jti`);
    asTenant(command, context, async ({ signet, target, args: [, id = ""] }) => {
      const { iss } = await signet.streams.get(target);
      await signet.streams[method](target, subjectOf(id, iss));
    });
  }
}

/** `signet stream`. */
export function streamCommand(context: CliContext): Command {
  const stream = new Command("stream").description("streams of security events, which report revocations");
  addChanges(stream, context);
  addReads(stream, context);
  addStatus(stream, context);
  addSubjects(stream, context);
  return stream;
}

/** `signet compliance list | show | verify`: a tenant's own entries of the compliance log. */
import { Command } from "commander";
import type { CliContext } from "../context.ts";
import { misused } from "../exit-codes.ts";
import { readNotes } from "../kept-notes.ts";
import { printResource } from "../output.ts";
import { asTenant, wholeNumber, withExamples } from "./command.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

interface EntryListOptions extends PageChoice {
  readonly type?: string;
  readonly from?: string;
  readonly to?: string;
}

interface VerifyOptions extends ClientOptions {
  readonly vkey: readonly string[];
  readonly checkpoint?: readonly string[];
}

function time(option: string, value: string | undefined): Date | undefined {
  if (value === undefined) {
    return undefined;
  }
  const read = new Date(value);
  if (Number.isNaN(read.getTime())) {
    throw misused(`${option} takes a time, RFC 3339.`);
  }
  return read;
}

/** `signet compliance`. */
export function complianceCommand(context: CliContext): Command {
  const compliance = new Command("compliance").description("a tenant's entries in the compliance log");

  const list = withPages(
    compliance
      .command("list")
      .description("list the tenant's entries, newest first")
      .option("--type <type>", "entries of this type, for instance credential.revoked")
      .option("--from <time>", "at or after this time, RFC 3339")
      .option("--to <time>", "before this time, RFC 3339"),
  );
  asTenant<EntryListOptions>(list, context, async ({ signet, options }) => {
    const { type, from, to } = options;
    const filter = given({ ...pageOf(options), type, from: time("--from", from), to: time("--to", to) });
    await printList(
      context,
      signet.compliance.list(filter),
      ["index", "at", "type", "actor", "target"],
      options,
    );
  });

  const show = compliance
    .command("show <index>")
    .description("show one entry, with the bytes that its hash covers");
  asTenant(show, context, async ({ signet, target, options }) => {
    printResource(context, await signet.compliance.get(wholeNumber("<index>", target)), options);
  });

  const verify = compliance
    .command("verify <index>")
    .description("prove that an entry is in the signed log, without trust in the service")
    .requiredOption("--vkey <key...>", "verifier key, from the operator of the service")
    .option("--checkpoint <file...>", "checkpoints that you kept; the log must be consistent with them");
  asTenant<VerifyOptions>(verify, context, async ({ signet, target, options }) => {
    const earlier = (await readNotes(options.checkpoint)).map(({ note }) => note);
    const index = wholeNumber("<index>", target);
    printResource(
      context,
      { ...(await signet.compliance.verify(index, { verifierKeys: options.vkey, earlier })) },
      options,
    );
  });
  withExamples(verify, "signet compliance verify 41 --vkey signet/compliance+… --checkpoint kept.note");
  return compliance;
}

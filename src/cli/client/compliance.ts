/** `signet compliance list | show | verify`: a tenant's own entries of the compliance log. */
import { Command } from "commander";
import type { CliContext } from "../context.ts";
import { readNotes } from "../kept-notes.ts";
import { type TimeRange, withTimeRange } from "../list-options.ts";
import { printResource, printVerified } from "../output.ts";
import { asTenant, wholeNumber, withExamples } from "./command.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

interface EntryListOptions extends PageChoice, TimeRange {
  readonly type?: string;
}

interface VerifyOptions extends ClientOptions {
  readonly vkey: readonly string[];
  readonly checkpoint?: readonly string[];
}

const instant = (text: string | undefined): Date | undefined =>
  text === undefined ? undefined : new Date(text);

/** `signet compliance`. */
export function complianceCommand(context: CliContext): Command {
  const compliance = new Command("compliance").description("a tenant's entries in the compliance log");

  const list = withPages(
    withTimeRange(
      compliance
        .command("list")
        .description("list the tenant's entries, newest first")
        .option("--type <type>", "entries of this type, for instance credential.revoked"),
    ),
  );
  asTenant<EntryListOptions>(list, context, async ({ signet, options }) => {
    const { type, from, to } = options;
    const filter = given({ ...pageOf(options), type, from: instant(from), to: instant(to) });
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
    const verified = await signet.compliance.verify(index, { verifierKeys: options.vkey, earlier });
    printVerified(context, `entry ${index} is in the signed log`, verified, options);
  });
  withExamples(verify, "signet compliance verify 41 --vkey signet/compliance+… --checkpoint kept.note");
  return compliance;
}

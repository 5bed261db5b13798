import { Command } from "commander";
import { createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { type ListOptions, listQuery, withListOptions } from "./list-options.ts";
import { type OutputOptions, printPage, printResource } from "./output.ts";

interface CreateOptions extends OutputOptions {
  readonly principal: string;
  readonly sanUri?: string;
  readonly certificateThumbprint?: readonly string[];
}

/** `signet credential create | list | show`. */
export function credentialCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const credential = new Command("credential").description("client ids and secrets");

  credential
    .command("create")
    .description("add a credential to a principal; its secret is shown now and never again")
    .requiredOption("--principal <id>", "principal")
    .option("--san-uri <uri>", "spiffe:// URI in the client's certificate")
    .option(
      "--certificate-thumbprint <sha256...>",
      "SHA-256 of the client's certificate, 64 hexadecimal digits",
    )
    .option("--json", "print the API's object")
    .action(async ({ principal, sanUri, certificateThumbprint, ...output }: CreateOptions) => {
      const body = {
        ...(sanUri === undefined ? {} : { san_uri: sanUri }),
        ...(certificateThumbprint === undefined ? {} : { certificate_thumbprints: certificateThumbprint }),
      };
      printResource(
        context,
        await call("POST", `/principals/${segment(principal)}/credentials`, body),
        output,
      );
    });

  withListOptions(
    credential
      .command("list")
      .description("list a principal's credentials, newest first")
      .requiredOption("--principal <id>", "principal"),
  ).action(async (options: ListOptions & { readonly principal: string }) => {
    const page = await call(
      "GET",
      `/principals/${segment(options.principal)}/credentials${listQuery(options)}`,
    );
    printPage(context, page, ["id", "client_id", "state", "version", "created_at"], options);
  });

  credential
    .command("show <id>")
    .description("show one credential, without its secret")
    .option("--json", "print the API's object")
    .action(async (id: string, options: OutputOptions) => {
      printResource(context, await call("GET", `/credentials/${segment(id)}`), options);
    });

  return credential;
}

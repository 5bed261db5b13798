import { readFile } from "node:fs/promises";
import { Command } from "commander";
import { messageOf } from "#runtime/thrown.ts";
import { createAdminCall, segment } from "./admin-client.ts";
import { withoutMark } from "./client/command.ts";
import { addOwn, printCredential } from "./client/own-credential.ts";
import { type CliContext, CommandError } from "./context.ts";
import { type ListOptions, listQuery, withListOptions, withTable } from "./list-options.ts";
import { type OutputOptions, printPage, printResource } from "./output.ts";
import { addRevoke } from "./revocation.ts";

interface CreateOptions extends OutputOptions {
  readonly principal: string;
  readonly sanUri?: string;
  readonly certificateThumbprint?: readonly string[];
  readonly workload?: boolean;
  readonly jwksFile?: string;
}

async function readJwks(file: string): Promise<unknown> {
  try {
    return JSON.parse(withoutMark(await readFile(file, "utf8"))) as unknown;
  } catch (error) {
    throw new CommandError(`${file} cannot be read as JSON: ${messageOf(error)}`);
  }
}

/** `signet credential create | list | show | revoke | own`. */
export function credentialCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const credential = new Command("credential").description(
    "client ids and secrets; tenants manage their own with `own`",
  );

  credential
    .command("create")
    .description("add a credential to a principal; its secret is shown only once")
    .requiredOption("--principal <id>", "principal of the credential")
    .option("--san-uri <uri>", "spiffe:// URI in the client's certificate")
    .option(
      "--certificate-thumbprint <sha256...>",
      "SHA-256 of the client's certificate, 64 hexadecimal digits",
    )
    .option("--workload", "no secret; the client authenticates with its certificate or its keys")
    .option("--jwks-file <file>", "the client's public keys as a JWK set, for --workload")
    .option("--json", "print the API's object as JSON")
    .action(
      async ({ principal, sanUri, certificateThumbprint, workload, jwksFile, ...output }: CreateOptions) => {
        const body = {
          ...(workload === true ? { rotation_mode: "workload" } : {}),
          ...(jwksFile === undefined ? {} : { jwks: await readJwks(jwksFile) }),
          ...(sanUri === undefined ? {} : { san_uri: sanUri }),
          ...(certificateThumbprint === undefined ? {} : { certificate_thumbprints: certificateThumbprint }),
        };
        printResource(
          context,
          await call("POST", `/principals/${segment(principal)}/credentials`, body),
          output,
        );
      },
    );

  withListOptions(
    credential
      .command("list")
      .description("list a principal's credentials, newest first")
      .requiredOption(
        "--principal <id>",
        "principal of the credentials; tenants use `signet credential own list`",
      ),
  ).action(async (options: ListOptions & { readonly principal: string }) => {
    const page = await call(
      "GET",
      `/principals/${segment(options.principal)}/credentials${listQuery(options)}`,
    );
    printPage(
      context,
      page,
      ["id", "state", "client_id", "version", "due_at", "overdue", "created_at"],
      options,
    );
  });

  withTable(
    credential
      .command("show <id>")
      .description("show one credential by its id or client id (cl_…), without its secret"),
  )
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: OutputOptions) => {
      printCredential(context, await call("GET", `/credentials/${segment(id)}`), options);
    });

  return addOwn(addRevoke(credential, context, "credentials"), context);
}

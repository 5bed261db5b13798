import { Command } from "commander";
import { systemClock } from "#runtime/machine-timers.ts";
import { SPIFFE_ID } from "#domain/spiffe-id.ts";
import { developmentCaDirectory } from "#config/mutual-tls.ts";
import { type CliContext, CommandError } from "./context.ts";
import { misused } from "./exit-codes.ts";
import { type OutputOptions, printResource } from "./output.ts";

interface IssueOptions extends OutputOptions {
  readonly sanUri?: string;
}

const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;
const OWN_NAMES: ReadonlySet<string> = new Set(["ca", "server"]);

/** `signet dev-ca init | issue`: works on files only and needs no service. */
export function devCaCommand(context: CliContext): Command {
  const devCa = new Command("dev-ca").description("certificates for development, from your own CA");

  // Loaded on demand: certificates need a library that no other command uses.
  const open = async () => {
    const { home, production } = context.settings();
    if (production) {
      throw new CommandError("The development CA is not for production, and SIGNET_ENV is production.");
    }
    const { openDevelopmentCa } = await import("#http/mutual-tls/dev-ca.ts");
    return await openDevelopmentCa({ directory: developmentCaDirectory(home), nowMs: systemClock.now() });
  };

  devCa
    .command("init")
    .description("create the CA and the listener's certificate if they do not exist")
    .option("--json", "print an object as JSON")
    .action(async (output: OutputOptions) => {
      const { caFile, server } = await open();
      const files = { ca_file: caFile, server_key_file: server.keyFile, server_cert_file: server.certFile };
      printResource(context, files, output);
    });

  devCa
    .command("issue <name>")
    .description("issue a client certificate; <name> is the name of its files")
    .option("--san-uri <uri>", "SPIFFE id of the client; default: spiffe://signet.development/<name>")
    .option("--json", "print an object as JSON")
    .action(
      async (name: string, { sanUri = `spiffe://signet.development/${name}`, ...output }: IssueOptions) => {
        if (!NAME.test(name) || OWN_NAMES.has(name)) {
          throw misused("The name must be lower-case letters, digits and hyphens, and not ca or server.");
        }
        if (!new RegExp(SPIFFE_ID).test(sanUri)) {
          throw misused("--san-uri must be of the form spiffe://trust-domain/path.");
        }
        const client = await (await open()).client(name, sanUri);
        const made = {
          key_file: client.keyFile,
          cert_file: client.certFile,
          san_uri: sanUri,
          certificate_thumbprint: client.thumbprint,
        };
        printResource(context, made, output);
      },
    );

  return devCa;
}

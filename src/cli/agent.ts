/** `signet agent`: a sidecar that holds a credential and hands out tokens. */
import { readFile } from "node:fs/promises";
import { Command } from "commander";
import { startAgent } from "../agent/agent.ts";
import { type AgentAddress, parseAgentAddress } from "../agent/listen-address.ts";
import { readLocalSecret } from "../agent/local-secret.ts";
import { FileCredentialStore } from "../client/file-credential-store.ts";
import type { Warning } from "../client/runtime.ts";
import type { TlsMaterial } from "../client/tls-fetch.ts";
import { connect, type ConnectionOptions } from "../client/token-sources.ts";
import { messageOf } from "../thrown.ts";
import { type CliContext, CommandError } from "./context.ts";

interface AgentCommandOptions {
  readonly url: string;
  readonly credentialFile: string;
  readonly listen: string;
  readonly secretFile?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
}

/** What a person got wrong, or can mend, as the command's error. */
async function mendable<T>(what: string, operation: () => T | Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw new CommandError(`${what}: ${messageOf(error)}`, { cause: error });
  }
}

function tlsOf({ cert, key, ca }: AgentCommandOptions): Pick<ConnectionOptions, "tls"> {
  if (cert === undefined && key === undefined) {
    return {};
  }
  if (cert === undefined || key === undefined) {
    throw new CommandError("--cert and --key belong together");
  }
  // Read again and again: certificates are renewed in place.
  const tls = async (): Promise<TlsMaterial> => ({
    cert: await readFile(cert),
    key: await readFile(key),
    ...(ca === undefined ? {} : { ca: await readFile(ca) }),
  });
  return { tls };
}

async function secretOf(address: AgentAddress, path: string): Promise<string | null> {
  return address.kind === "unix" ? null : await mendable("secret file", () => readLocalSecret(path));
}

async function untilSignal(): Promise<void> {
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
      process.once(signal, () => resolve());
    }
  });
}

async function runAgent(options: AgentCommandOptions, context: CliContext): Promise<void> {
  const report = (line: string): void => context.stderr(`signet agent: ${line}\n`);
  const warn = ({ message, cause }: Warning): void =>
    report(cause === undefined ? message : `${message}: ${messageOf(cause)}`);
  const address = await mendable("--listen", () => parseAgentAddress(options.listen));
  const store = new FileCredentialStore(options.credentialFile, { warn });
  const stored = await mendable(options.credentialFile, async () => await store.load());
  if (stored === undefined) {
    throw new CommandError(`${options.credentialFile} is not there: signet credential create --json > FILE`);
  }
  const connection = await mendable("--url", () =>
    connect({ baseUrl: options.url, store, warn, ...tlsOf(options) }),
  );
  const secretFile = options.secretFile ?? `${options.credentialFile}.agent-secret`;
  const secret = await secretOf(address, secretFile);
  const agent = await mendable(
    options.listen,
    async () => await startAgent({ connection, address, secret, report }),
  );
  const presented = secret === null ? "" : `, secret in ${secretFile}`;
  context.stdout(`signet agent ready: ${agent.address}${presented}\n`);
  await untilSignal();
  await agent.close();
}

/** `signet agent`. */
export function agentCommand(context: CliContext): Command {
  return new Command("agent")
    .description("hold a credential and hand out tokens to programs on this machine")
    .requiredOption("--url <address>", "where the service is")
    .requiredOption("--credential-file <file>", "the credential; rewritten when its secret is rotated")
    .option("--listen <address>", "a loopback host:port, or unix:/path", "127.0.0.1:8085")
    .option("--secret-file <file>", "what callers on loopback present; made when it is not there")
    .option("--cert <file>", "client certificate of mutual TLS, PEM")
    .option("--key <file>", "its key, PEM")
    .option("--ca <file>", "authority of the service's certificate, PEM")
    .action(async (options: AgentCommandOptions) => {
      await runAgent(options, context);
    });
}

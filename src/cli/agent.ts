/** `signet agent`: a sidecar that holds a credential and hands out tokens. */
import { Command } from "commander";
import { startAgent } from "./agent/agent.ts";
import { type AgentAddress, parseAgentAddress } from "./agent/listen-address.ts";
import { readLocalSecret } from "./agent/local-secret.ts";
import { connect } from "#lib/client/token-sources.ts";
import { connectionOf, withCommandError, type TenantOptions } from "./connection.ts";
import type { CliContext } from "./context.ts";

interface AgentCommandOptions extends TenantOptions {
  readonly listen: string;
  readonly secretFile?: string;
}

async function secretOf(address: AgentAddress, path: string): Promise<string | null> {
  return address.kind === "unix" ? null : await withCommandError("secret file", () => readLocalSecret(path));
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
  const address = await withCommandError("--listen", () => parseAgentAddress(options.listen));
  const settings = await connectionOf(options, report);
  const connection = await withCommandError("--url", () => connect(settings));
  const secretFile = options.secretFile ?? `${options.credentialFile}.agent-secret`;
  const secret = await secretOf(address, secretFile);
  const agent = await withCommandError(
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
    .requiredOption("--url <address>", "address of the service")
    .requiredOption(
      "--credential-file <file>",
      "file with the credential; rewritten when its secret is rotated",
    )
    .option("--listen <address>", "a loopback host:port, or unix:/path", "127.0.0.1:8085")
    .option("--secret-file <file>", "secret that callers on loopback must present; created if missing")
    .option("--cert <file>", "client certificate for mutual TLS, PEM")
    .option("--key <file>", "key of the client certificate, PEM")
    .option("--ca <file>", "CA of the service's certificate, PEM")
    .action(async (options: AgentCommandOptions) => {
      await runAgent(options, context);
    });
}

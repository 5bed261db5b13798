/** `signet revoke` and `signet credential own revoke`: the argument or the secret that leaked. */
import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import { misused } from "./exit-codes.ts";
import { readSecret } from "./secret-input.ts";

export interface LeakOptions {
  readonly secretStdin?: boolean;
  readonly tokenStdin?: boolean;
}

/** Secrets of this service, and JSON Web Tokens. */
const SECRET = /^(?:Bearer\s|sgn_|whsec_|[^.]+\.[^.]+\.[^.]+$)/i;

/** Adds the options that read a secret or a token. */
export function withLeakInput(command: Command): Command {
  return command
    .option("--secret-stdin", "read a client secret or a signing secret from the terminal or standard input")
    .option("--token-stdin", "read a whole access token from the terminal or standard input");
}

/**
 * Returns what leaked, from the argument or the input.
 *
 * @throws CommandError (exit code EXIT.usage) unless there is exactly one, and for a secret as an argument
 */
export async function leakedText(
  context: CliContext,
  target: string | undefined,
  { secretStdin = false, tokenStdin = false }: LeakOptions,
): Promise<string> {
  const sources = [target !== undefined && target !== "", secretStdin, tokenStdin];
  if (sources.filter(Boolean).length !== 1) {
    throw misused("Say what leaked: give one argument, --secret-stdin or --token-stdin.");
  }
  if (target !== undefined && SECRET.test(target)) {
    throw misused(
      "Other users can see secrets and tokens on a command line: use --secret-stdin or --token-stdin.",
    );
  }
  const text = sources[0] === true ? target : await readSecret(context, secretStdin ? "Secret" : "Token");
  if (text === undefined || text === "") {
    throw misused("The secret or token is read from standard input, which was empty.");
  }
  return text;
}

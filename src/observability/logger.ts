/**
 * The log: JSON lines on standard output. Two layers keep secrets out of it. Named members are censored, and anything
 * in the finished line that looks like a secret or a token is masked. Characters that control a terminal are escaped.
 */
import { chmodSync } from "node:fs";
import { destination as pinoDestination, type DestinationStream, type Logger, pino } from "pino";
import { escapeBeyondJson } from "#domain/shown-text.ts";

export type { Logger };

const SECRET_MEMBERS = [
  "authorization",
  "client_secret",
  "clientSecret",
  "secret",
  "token",
  "access_token",
  "accessToken",
  "operatorToken",
  "client-cert",
  "webhook-signature",
  "x-service-signature-256",
];

const CENSORED_PATHS = SECRET_MEMBERS.flatMap((member) => {
  const key = /^\w+$/.test(member) ? `.${member}` : `["${member}"]`;
  return [key.replace(/^\./, ""), `*${key}`, `*.*${key}`];
});

// Secrets may also be inside a message or a stack trace, which no path reaches: client secrets, operators' tokens,
// endpoint secrets, JSON Web Tokens.
const SECRET_TEXT = /(sgn_(?:live|test)_sk_|sgn_op_|whsec_)[\w+/=-]+|eyJ[\w-]+\.[\w-]+\.[\w-]+/g;

/** Masks every secret and token in a text. */
export function maskSecrets(text: string): string {
  return text.replace(SECRET_TEXT, (_match, prefix: string | undefined) => `${prefix ?? ""}[redacted]`);
}

export interface LoggerOptions {
  readonly level: string;
  /** Standard output by default. */
  readonly destination?: DestinationStream;
}

/** Creates the process's logger. */
export function createLogger({ level, destination }: LoggerOptions): Logger {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: CENSORED_PATHS, censor: "[redacted]" },
    // People read the lines on terminals, where text of tenants must not reorder or hide the rest.
    hooks: { streamWrite: (line: string) => escapeBeyondJson(maskSecrets(line)) },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** Opens a log file for its owner only, and creates its directory. Writes are synchronous, so a crash loses no line. */
export function fileDestination(path: string): DestinationStream {
  const destination = pinoDestination({ dest: path, mkdir: true, sync: true, mode: 0o600 });
  // The mode applies only to new files, and an earlier version created them with another one.
  chmodSync(path, 0o600);
  return destination;
}

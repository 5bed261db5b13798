/**
 * Finds the credential of a tenant's command. The order is `--profile`, SIGNET_CLIENT_ID, the profile that
 * SIGNET_PROFILE names, the demo tenant of `npm start`.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { asObject } from "#lib/client/json.ts";
import type { Warn } from "#lib/client/runtime.ts";
import { SignetClient } from "#lib/client/signet-client.ts";
import type { ConnectionOptions } from "#lib/client/token-sources.ts";
import { type ClientSettings, formatListen } from "#config/config.ts";
import { messageOf } from "#runtime/thrown.ts";
import { tlsOf } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exit-codes.ts";
import { given } from "./given.ts";
import { loadProfile, type Profile } from "./profiles.ts";

/** Options of every command of a tenant. */
export interface ClientOptions {
  readonly profile?: string;
  readonly json?: boolean;
}

/** A client that acts as the command's tenant. */
export interface OpenClient {
  readonly signet: SignetClient;
  readonly baseUrl: string;
  /** Source of the credential, for people. */
  readonly identity: string;
}

type Found = Pick<ConnectionOptions, "baseUrl" | "clientId" | "clientSecret" | "store" | "tls"> & {
  readonly identity: string;
};

/** File with the credential of the demo tenant of `npm start` (src/processes/demo/demo-tenant.ts). */
const DEMO_FILE = "demo.json";
const PROFILE_NAME = /^[a-z0-9][a-z0-9_-]{0,31}$/;

/** Returns the settings of tenants' commands. */
export function clientSettingsOf(context: CliContext): ClientSettings {
  if (context.clientSettings === undefined) {
    throw new TypeError("this context has no settings for tenants");
  }
  return context.clientSettings();
}

/** Returns the API's address from the settings; by default, the API on this machine. */
export function defaultUrl({ apiUrl, apiListen }: ClientSettings): string {
  return apiUrl ?? `http://${formatListen(apiListen)}`;
}

/** @throws CommandError if the name is invalid */
export function profileName(option: string | undefined, settings: ClientSettings): string {
  const name = option ?? settings.profile;
  if (!PROFILE_NAME.test(name)) {
    throw new CommandError("--profile takes at most 32 lower-case letters, digits, _ and -.", {
      exitCode: EXIT.usage,
    });
  }
  return name;
}

/** Returns the certificate files from the settings. */
export function certificateOf({
  clientKeyFile: key,
  clientCertFile: cert,
  apiCaFile: ca,
}: ClientSettings): Omit<Profile, "url"> {
  return given({ key, cert, ca });
}

function fromEnvironment(settings: ClientSettings): Found | undefined {
  const { clientId, clientSecret } = settings;
  if (clientId === undefined) {
    return undefined;
  }
  const baseUrl = defaultUrl(settings);
  return {
    baseUrl,
    clientId,
    ...(clientSecret === undefined ? {} : { clientSecret }),
    ...tlsOf({ ...certificateOf(settings), url: baseUrl }),
    identity: "SIGNET_CLIENT_ID",
  };
}

async function fromProfile(name: string, settings: ClientSettings, warn: Warn): Promise<Found | undefined> {
  const found = await loadProfile(settings.profileDir, name, warn);
  if (found === undefined) {
    return undefined;
  }
  const { profile, store } = found;
  const baseUrl = settings.apiUrl ?? profile.url;
  return {
    baseUrl,
    store,
    ...tlsOf({ ...profile, url: baseUrl }),
    identity: `profile ${name}`,
  };
}

/** Returns the credential of the demo tenant, which exists only in development. */
async function fromDemo(settings: ClientSettings): Promise<Found | undefined> {
  const file = join(settings.home, DEMO_FILE);
  try {
    const stored = asObject(JSON.parse(await readFile(file, "utf8")));
    const { client_id: clientId, client_secret: clientSecret } = stored;
    if (settings.production || typeof clientId !== "string" || typeof clientSecret !== "string") {
      return undefined;
    }
    return { baseUrl: defaultUrl(settings), clientId, clientSecret, identity: `the demo tenant of ${file}` };
  } catch {
    return undefined;
  }
}

async function find(options: ClientOptions, settings: ClientSettings, warn: Warn): Promise<Found> {
  const name = profileName(options.profile, settings);
  const found =
    options.profile === undefined
      ? (fromEnvironment(settings) ?? (await fromProfile(name, settings, warn)) ?? (await fromDemo(settings)))
      : await fromProfile(name, settings, warn);
  if (found === undefined) {
    throw new CommandError(
      `No credential${options.profile === undefined ? "" : ` in profile ${name}`}: run \`signet login\`, set SIGNET_CLIENT_ID and SIGNET_CLIENT_SECRET, or start the service on this machine with \`npm start\`.`,
      { exitCode: EXIT.notAllowed },
    );
  }
  return found;
}

/** @throws CommandError if there is no credential (exit code EXIT.notAllowed) */
export async function openClient(
  context: CliContext,
  options: ClientOptions,
  scopes: readonly string[] = [],
): Promise<OpenClient> {
  const settings = clientSettingsOf(context);
  const warn: Warn = ({ message, cause }) =>
    context.stderr(`signet: ${message}${cause === undefined ? "" : `: ${messageOf(cause)}`}\n`);
  const { identity, ...connection } = await find(options, settings, warn);
  const overTls = connection.tls === undefined ? { fetch: context.fetch } : {};
  try {
    const signet = new SignetClient({
      ...connection,
      ...overTls,
      regionUrls: settings.apiRegionUrls,
      warn,
      scopes,
      exactNumbers: true,
    });
    return { signet, baseUrl: connection.baseUrl, identity };
  } catch (error) {
    // The options contradict each other, or the secret would be sent unencrypted.
    throw new CommandError(messageOf(error), { cause: error });
  }
}

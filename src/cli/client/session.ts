/** `signet login | logout | whoami | token`: the identity of a tenant's commands. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { text as readStream } from "node:stream/consumers";
import { Command } from "commander";
import { CredentialStoreError } from "#lib/client/errors.ts";
import { parseCredential } from "#lib/client/file-credential-store.ts";
import { asObject } from "#lib/client/json.ts";
import { SignetClient } from "#lib/client/signet-client.ts";
import type { StoredCredential } from "#lib/client/succession.ts";
import { messageOf } from "#runtime/thrown.ts";
import { tlsOf } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { CommandError, misused } from "../exit-codes.ts";
import { printResource } from "../output.ts";
import { readSecret } from "../secret-input.ts";
import { asTenant, withExamples, words } from "./command.ts";
import {
  certificateOf,
  clientSettingsOf,
  type ClientOptions,
  defaultUrl,
  openClient,
  profileName,
} from "./open-client.ts";
import { given } from "./given.ts";
import { type Profile, removeProfile, saveProfile } from "./profiles.ts";

interface LoginOptions extends ClientOptions {
  readonly url?: string;
  readonly clientId?: string;
  readonly credentialFile?: string;
  readonly key?: string;
  readonly cert?: string;
  readonly ca?: string;
}

async function readCredential(
  { clientId, credentialFile }: LoginOptions,
  context: CliContext,
): Promise<StoredCredential> {
  if ((clientId === undefined) === (credentialFile === undefined)) {
    throw misused(
      "Give --client-id, or --credential-file with the output of `signet credential create --json`.",
    );
  }
  if (clientId !== undefined) {
    const secret = await readSecret(context, "Client secret");
    if (secret === "") {
      throw misused("The client secret is read from standard input, which was empty.");
    }
    return parseCredential(JSON.stringify({ client_id: clientId, client_secret: secret, version: null }));
  }
  const path = credentialFile ?? "-";
  try {
    return parseCredential(path === "-" ? await readStream(process.stdin) : await readFile(path, "utf8"));
  } catch (error) {
    if (error instanceof CredentialStoreError) {
      throw error;
    }
    throw new CommandError(messageOf(error), { cause: error });
  }
}

/** Returns the claims to show to people. They are not verified, because the token comes from the service itself. */
function claimsOf(token: string): Readonly<Record<string, unknown>> {
  const [, payload = ""] = token.split(".");
  const claims = asObject(JSON.parse(Buffer.from(payload, "base64url").toString()));
  const { tenant, prn, client_id: clientId, region, scope } = claims;
  return { tenant, principal: prn, client_id: clientId, region, scope };
}

/** Requests a token, so that an invalid credential is found before it is saved. */
async function check(profile: Profile, credential: StoredCredential, context: CliContext): Promise<string> {
  const tls = tlsOf(profile);
  const overTls = tls.tls === undefined ? { fetch: context.fetch } : {};
  const { clientId, current } = credential;
  try {
    const options = { baseUrl: profile.url, clientId, clientSecret: current.secret, ...tls, ...overTls };
    return (await new SignetClient(options).accessToken()).value;
  } catch (error) {
    throw error instanceof TypeError ? new CommandError(error.message, { cause: error }) : error;
  }
}

/** Makes a path absolute, because the profile is used from other directories too. */
function absolute(path: string | undefined): string | undefined {
  return path === undefined ? undefined : resolve(path);
}

async function login(options: LoginOptions, context: CliContext): Promise<void> {
  const settings = clientSettingsOf(context);
  const name = profileName(options.profile, settings);
  const profile = {
    url: options.url ?? defaultUrl(settings),
    ...certificateOf(settings),
    ...given({ key: absolute(options.key), cert: absolute(options.cert), ca: absolute(options.ca) }),
  };
  if (!URL.canParse(profile.url)) {
    throw misused("--url takes the API's address, for instance https://api.example.com");
  }
  const credential = await readCredential(options, context);
  const token = await check(profile, credential, context);
  const file = await saveProfile({ directory: settings.profileDir, name }, profile, credential);
  printResource(context, { profile: name, file, url: profile.url, ...claimsOf(token) }, options);
}

/** `signet login`. */
function loginCommand(context: CliContext): Command {
  const command = new Command("login")
    .description("check a credential and save it in a profile, for a tenant's commands")
    .option(
      "--url <address>",
      "address of the API; default: SIGNET_API_URL, otherwise http:// and SIGNET_API_LISTEN",
    )
    .option("--client-id <id>", "client id; its secret is read from the terminal or standard input")
    .option(
      "--credential-file <file>",
      "file with the output of `signet credential create --json`; - for standard input",
    )
    .option("--key <file>", "private key of the client certificate for mutual TLS, PEM")
    .option("--cert <file>", "client certificate for mutual TLS, PEM")
    .option("--ca <file>", "CA of the API's certificate, PEM")
    .option("--profile <name>", "name of the profile; default: SIGNET_PROFILE, otherwise default")
    .option("--json", "print an object as JSON")
    .action(async (options: LoginOptions) => await login(options, context));
  return withExamples(
    command,
    "signet login --url https://api.example.com --client-id cl_…",
    "signet credential create --principal prn_… --json | signet login --credential-file -",
  );
}

/** `signet logout`. */
function logoutCommand(context: CliContext): Command {
  return new Command("logout")
    .description("remove a profile from this machine; the credential itself stays valid")
    .option("--profile <name>", "name of the profile; default: SIGNET_PROFILE, otherwise default")
    .action(async ({ profile }: ClientOptions) => {
      const settings = clientSettingsOf(context);
      await removeProfile(settings.profileDir, profileName(profile, settings));
    });
}

/** `signet whoami`. */
function whoamiCommand(context: CliContext): Command {
  const command = new Command("whoami").description(
    "show the identity and the scopes of a tenant's commands",
  );
  return asTenant(command, context, async ({ signet, baseUrl, identity, options }) => {
    const { value } = await signet.accessToken();
    printResource(context, { url: baseUrl, credential: identity, ...claimsOf(value) }, options);
  });
}

/** Makes `signet token` print a token; its subcommand `revoke` is for operators. */
export function addTokenPrinting(token: Command, context: CliContext): Command {
  interface TokenOptions extends ClientOptions {
    readonly scope?: string;
  }
  token
    .option("--scope <scopes>", "some of the principal's scopes; default: all")
    .option("--profile <name>", "profile that `signet login` saved")
    .option("--json", "print the token with its scope and expiry as JSON")
    .action(async (options: TokenOptions) => {
      const { signet } = await openClient(context, options, words(options.scope ?? ""));
      const { value, scope, expiresAt } = await signet.accessToken();
      if (options.json === true) {
        const expires = new Date(expiresAt).toISOString();
        printResource(
          context,
          { access_token: value, token_type: "Bearer", scope, expires_at: expires },
          options,
        );
        return;
      }
      context.stdout(`${value}\n`);
    });
  return withExamples(
    token,
    "signet token",
    'curl -H "Authorization: Bearer $(signet token)" http://127.0.0.1:8080/v1/webhooks/endpoints',
  );
}

export function sessionCommands(context: CliContext): readonly Command[] {
  return [loginCommand(context), logoutCommand(context), whoamiCommand(context)];
}

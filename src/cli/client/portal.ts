/** `signet portal`: a one-time link that signs a browser in to the portal. */
import { spawn } from "node:child_process";
import { Command } from "commander";
import { asObject } from "#lib/client/json.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exit-codes.ts";
import { printResource } from "../output.ts";
import { wholeNumber, withExamples, words } from "./command.ts";
import { given } from "./given.ts";
import { clientSettingsOf, type ClientOptions, openClient, type OpenClient } from "./open-client.ts";
import { listProfiles } from "./profiles.ts";

interface PortalOptions extends ClientOptions {
  readonly tenant?: string;
  readonly open?: boolean;
  readonly scopes?: string;
  readonly expiresIn?: string;
}

/** Programs that open an address in the browser, by platform. */
const OPENERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", ""],
};

/** Opens an address in the browser. Resolves with false if there is no program for it. */
async function openInBrowser(url: string): Promise<boolean> {
  const [program, ...before] = OPENERS[process.platform] ?? ["xdg-open"];
  const child = spawn(program, [...before, url], { detached: true, stdio: "ignore" });
  return await new Promise((resolve) => {
    child.once("error", () => resolve(false));
    child.once("spawn", () => {
      child.unref();
      resolve(true);
    });
  });
}

async function tenantOf({ signet }: OpenClient): Promise<unknown> {
  const [, payload = ""] = (await signet.accessToken()).value.split(".");
  return asObject(JSON.parse(Buffer.from(payload, "base64url").toString()))["tenant"];
}

/** Returns the client of the first profile whose credential belongs to the tenant. */
async function clientOf(tenantId: string, context: CliContext, options: ClientOptions): Promise<OpenClient> {
  const names = await listProfiles(clientSettingsOf(context).profileDir);
  const choices = [options, ...names.map((profile) => ({ profile }))];
  for (const choice of choices) {
    try {
      // The next profile is opened only if this one belongs to another tenant.
      // oxlint-disable-next-line no-await-in-loop
      const client = await openClient(context, choice);
      // oxlint-disable-next-line no-await-in-loop
      if ((await tenantOf(client)) === tenantId) {
        return client;
      }
    } catch {
      // Another profile may still work.
    }
  }
  throw new CommandError(
    `No saved credential belongs to ${tenantId}: run \`signet login\` with one of this tenant's.`,
    { exitCode: EXIT.notAllowed },
  );
}

async function run(context: CliContext, options: PortalOptions): Promise<void> {
  const { tenant, open, scopes, expiresIn } = options;
  const { signet } =
    tenant === undefined ? await openClient(context, options) : await clientOf(tenant, context, options);
  const link = await signet.portal.createLink(
    given({
      scopes: scopes === undefined ? undefined : words(scopes),
      expires_in_seconds: expiresIn === undefined ? undefined : wholeNumber("--expires-in", expiresIn),
    }),
  );
  if (open === true && (await openInBrowser(link.url))) {
    context.stderr("Opened the portal in the browser.\n");
    return;
  }
  if (open === true) {
    context.stderr("No browser was found. Open this link; it signs in once:\n");
  }
  if (options.json === true) {
    printResource(context, link, options);
  } else {
    context.stdout(`${link.url}\n`);
  }
}

/** `signet portal`. */
export function portalCommand(context: CliContext): Command {
  const command = new Command("portal")
    .description("create a link that signs a browser in to the portal once")
    .option("--open", "open the link in the browser instead of printing it")
    .option("--tenant <id>", "use the saved profile of this tenant")
    .option("--scopes <scopes>", "scopes of the session, separated by commas; default: all of the credential")
    .option("--expires-in <seconds>", "lifetime of the link, 1 to 900; default: 300")
    .option("--profile <name>", "profile that `signet login` saved")
    .option("--json", "print the API's object as JSON")
    .action(async (options: PortalOptions) => await run(context, options));
  return withExamples(command, "signet portal --open", "signet portal --scopes webhooks:read");
}

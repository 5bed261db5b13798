/**
 * Profiles: the saved credentials of a tenant's commands. A profile is two files that only their owner can read. One
 * holds the address and the certificate's file names. The other holds the credential and is rewritten at each rotation.
 */
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { FileCredentialStore } from "#lib/client/file-credential-store.ts";
import { asObject } from "#lib/client/json.ts";
import type { StoredCredential } from "#lib/client/succession.ts";
import type { Warn } from "#lib/client/runtime.ts";
import { messageOf } from "#runtime/thrown.ts";
import { CommandError } from "../exit-codes.ts";

const OWNER_ONLY = 0o600;
const OWNER_ONLY_DIRECTORY = 0o700;

export interface Profile {
  readonly url: string;
  /** Files of a client certificate, PEM. */
  readonly key?: string;
  readonly cert?: string;
  readonly ca?: string;
}

interface Files {
  readonly profile: string;
  readonly credential: string;
}

/** The name was validated when it was read (src/config/client-settings.ts), so it cannot leave the directory. */
function filesOf(directory: string, name: string): Files {
  return { profile: join(directory, `${name}.json`), credential: join(directory, `${name}.credential.json`) };
}

async function readProfile(path: string): Promise<Profile | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (asObject(error)["code"] === "ENOENT") {
      return undefined;
    }
    throw new CommandError(`The profile cannot be read: ${messageOf(error)}`, { cause: error });
  }
  let stored: Readonly<Record<string, unknown>>;
  try {
    stored = asObject(JSON.parse(text));
  } catch {
    stored = {};
  }
  const texts = Object.fromEntries(Object.entries(stored).filter(([, value]) => typeof value === "string"));
  if (!("url" in texts)) {
    throw new CommandError(`${path} is not a valid profile: run \`signet login\` to write it again.`);
  }
  return texts as unknown as Profile;
}

/** Returns the profile and its credential store; undefined if there is no profile with that name. */
export async function loadProfile(
  directory: string,
  name: string,
  warn: Warn,
): Promise<{ readonly profile: Profile; readonly store: FileCredentialStore } | undefined> {
  const files = filesOf(directory, name);
  const profile = await readProfile(files.profile);
  return profile === undefined
    ? undefined
    : { profile, store: new FileCredentialStore(files.credential, { warn }) };
}

/** Saves the profile; writes the credential first, so that no profile is ever without one. */
export async function saveProfile(
  { directory, name }: { readonly directory: string; readonly name: string },
  profile: Profile,
  credential: StoredCredential,
): Promise<string> {
  const files = filesOf(directory, name);
  await mkdir(directory, { recursive: true, mode: OWNER_ONLY_DIRECTORY });
  await new FileCredentialStore(files.credential).save(credential);
  const temporary = `${files.profile}.${process.pid}.tmp`;
  const file = await open(temporary, "w", OWNER_ONLY);
  try {
    await file.writeFile(`${JSON.stringify(profile, undefined, 2)}\n`);
  } finally {
    await file.close();
  }
  await rename(temporary, files.profile);
  return files.profile;
}

/** Returns the names of the saved profiles. */
export async function listProfiles(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch((): string[] => []);
  return names.flatMap((name) => /^([a-z0-9][a-z0-9_-]*)\.json$/.exec(name)?.[1] ?? []).toSorted();
}

/** Removes the profile and its credential from this machine, if they exist. */
export async function removeProfile(directory: string, name: string): Promise<void> {
  const files = filesOf(directory, name);
  await rm(files.profile, { force: true });
  await rm(files.credential, { force: true });
}

/**
 * A credential in a file. It writes a temporary file, syncs it, renames it over the old one and syncs the directory:
 * the disk always has a complete credential. Processes that share the file need no lock: every
 * write contains what it read, and versions only grow (succession.ts).
 */
import { randomBytes } from "node:crypto";
import { open, readdir, readFile, realpath, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { CredentialStore } from "./credential-store.ts";
import { CredentialStoreError } from "./errors.ts";
import { asObject, type Json } from "./json.ts";
import type { Warn } from "./runtime.ts";
import { readSecret, readSuccessor, type StoredCredential, type StoredSecret } from "./succession.ts";

const OWNER_ONLY = 0o600;
const OTHERS = 0o077;
/** An older temporary file was left by a killed process. */
const LEFTOVER_MS = 60_000;

/**
 * Parses the JSON of a stored credential, or of a credential as created by the service.
 *
 * @throws CredentialStoreError, which does not quote the text
 */
export function parseCredential(text: string): StoredCredential {
  let value: Json;
  try {
    // Editors on Windows write a byte order mark.
    value = asObject(JSON.parse(text.replace(/^\uFEFF/, "")));
  } catch {
    throw new CredentialStoreError("the stored credential is not JSON");
  }
  const clientId = value["client_id"];
  const current = readSecret(value["current"]) ?? readSecret(value);
  if (typeof clientId !== "string" || current === null) {
    throw new CredentialStoreError("the stored credential lacks client_id or client_secret");
  }
  return { clientId, current, next: readSuccessor(value["next"]) };
}

/** Returns the JSON for `parseCredential`, also for custom stores. */
export function serializeCredential({ clientId, current, next }: StoredCredential): string {
  const member = ({ secret, version }: StoredSecret): Json => ({ client_secret: secret, version });
  const value = {
    client_id: clientId,
    current: member(current),
    next: next === null ? null : member(next),
  };
  return `${JSON.stringify(value, null, 2)}\n`;
}

function codeOf(error: unknown): unknown {
  return asObject(error)["code"];
}

async function unlessMissing<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (codeOf(error) === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

async function writeDurably(path: string, text: string): Promise<void> {
  // wx: do not follow a planted link.
  const file = await open(path, "wx", OWNER_ONLY);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function removeLeftovers(target: string): Promise<void> {
  const prefix = `${basename(target)}.`;
  for (const name of await readdir(dirname(target))) {
    if (name.startsWith(prefix) && name.endsWith(".tmp")) {
      const path = join(dirname(target), name);
      const found = await unlessMissing(stat(path));
      if (found !== undefined && Date.now() - found.mtimeMs > LEFTOVER_MS) {
        await unlessMissing(unlink(path));
      }
    }
  }
}

/** Stores a credential in the file at `path`, which need not exist yet; its directory must. */
export class FileCredentialStore implements CredentialStore {
  readonly #path: string;
  readonly #warn: Warn | undefined;
  #warned = false;

  /** @throws TypeError without a path, for instance of a variable that is not set */
  constructor(path: string, options: { readonly warn?: Warn } = {}) {
    if (typeof path !== "string" || path.trim() === "") {
      throw new TypeError("the path of the credential's file is not set");
    }
    this.#path = path;
    this.#warn = options.warn;
  }

  get place(): string {
    return this.#path;
  }

  async load(): Promise<StoredCredential | undefined> {
    const text = await unlessMissing(readFile(this.#path, "utf8"));
    if (text === undefined) {
      return undefined;
    }
    await this.#warnIfExposed();
    try {
      return parseCredential(text);
    } catch (error) {
      throw new CredentialStoreError(`${this.#path}: ${(error as Error).message}`);
    }
  }

  async save(credential: StoredCredential): Promise<void> {
    // Resolve a link: a rename would replace it.
    const target = (await unlessMissing(realpath(this.#path))) ?? this.#path;
    const temporary = `${target}.${process.pid}.${randomBytes(6).toString("hex")}.tmp`;
    try {
      await writeDurably(temporary, serializeCredential(credential));
      await rename(temporary, target);
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
    await syncDirectory(dirname(target));
    await removeLeftovers(target).catch(() => undefined);
  }

  async #warnIfExposed(): Promise<void> {
    const found = await unlessMissing(stat(this.#path));
    if (!this.#warned && found !== undefined && (found.mode & OTHERS) !== 0) {
      this.#warned = true;
      this.#warn?.({ code: "STORE_EXPOSED", message: `others can read ${this.#path}: chmod 600` });
    }
  }
}

/** A custom credential store, here over a secret manager that can only read and replace a text. */
import { type CredentialStore, parseCredential, serializeCredential } from "../../src/lib/client/index.ts";

interface SecretManager {
  read(name: string): Promise<string | undefined>;
  /** Resolves once the text is stored durably. */
  replace(name: string, text: string): Promise<void>;
}

export function secretManagerStore(manager: SecretManager, name: string): CredentialStore {
  return {
    load: async () => {
      const text = await manager.read(name);
      return text === undefined ? undefined : parseCredential(text);
    },
    save: async (credential) => await manager.replace(name, serializeCredential(credential)),
  };
}

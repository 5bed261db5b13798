/** Connections to Temporal as a process makes them from its environment. */
import { type Environment, loadConfig } from "#config/config.ts";
import { checkNamespace, createLazyClient, type TemporalOptions, temporalOptions } from "#temporal/client.ts";

export function temporalOptionsOf(environment: Environment): TemporalOptions {
  const config = loadConfig(environment);
  return temporalOptions({ ...config, temporalAddress: config.temporalAddress ?? "" });
}

/** Asks for the namespace with an api's client. Rejects if that fails. */
export async function askTemporal(environment: Environment): Promise<void> {
  const client = createLazyClient(temporalOptionsOf(environment));
  try {
    await checkNamespace(client);
  } finally {
    await client.connection.close();
  }
}

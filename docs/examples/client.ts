/** A tenant's program: it publishes an event and replays what could not be delivered. */
// region client
import { FileCredentialStore, SignetApiError, SignetClient } from "../../src/lib/client/index.ts"; // "@signet-delivery/client"

export async function publishAndReplay(baseUrl: string, credentialFile: string): Promise<void> {
  const signet = new SignetClient({ baseUrl, store: new FileCredentialStore(credentialFile) });
  await signet.events.publish({ type: "pipeline.failed", data: { run: 7 } });
  for await (const letter of signet.deadLetters.list({ event_type: "pipeline.failed" })) {
    try {
      await signet.deadLetters.replay(letter.id);
    } catch (error) {
      if (!(error instanceof SignetApiError && error.code === "INVALID_STATE")) {
        throw error; // somebody else has replayed it meanwhile
      }
    }
  }
}
// endregion

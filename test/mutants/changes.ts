/** Faults in what follows from revocations and other changes of credentials: events, planned ends. */
import type { Mutant } from "./mutant.ts";

export const CHANGES: readonly Mutant[] = [
  {
    name: "revocation-told-again",
    breaks: "Each revocation is told once, however often it is requested (decision 38)",
    file: "src/database/migrations/0068-events-follow-revocations.sql",
    find: "IF published.id = revocation_id AND tenant IS NOT NULL THEN",
    replace: "IF tenant IS NOT NULL THEN",
    caughtBy: "test/integration/revocation/receipts.test.ts",
  },
  {
    name: "locked-streams-stop-all-tenants",
    breaks: "A tenant whose events cannot be published waits alone (decision 38)",
    file: "src/webhooks/revocation-notices.ts",
    find: "      failures.push(error);",
    replace: "      throw error;",
    caughtBy: "test/integration/revocation/nothing-but-postgresql.test.ts",
  },
  {
    name: "key-revocation-waits-for-key-service",
    breaks: "The revocation of a signing key does not depend on the key service (decision 38)",
    file: "src/tokens/signing-keys/revoke.ts",
    find: "await within(timers, WRAP_MS, keyring.sealWithKek(aad, plaintext));",
    replace: "await within(timers, WRAP_MS * 1_000, keyring.sealWithKek(aad, plaintext));",
    caughtBy: "test/integration/signing-keys/rotation.test.ts",
  },
  {
    name: "rotation-told-nobody",
    breaks: "A stream learns of each rotation, also if the key service is away meanwhile (decision 38)",
    file: "src/webhooks/revocation-notices.ts",
    find: 'events: () => credentialChanges("update")',
    replace: "events: () => []",
    caughtBy: "test/integration/revocation/nothing-but-postgresql.test.ts",
  },
  {
    name: "new-certificate-told-nobody",
    breaks: "A stream learns of the certificate that a new credential names (docs/ssf.md)",
    file: "src/webhooks/revocation-notices.ts",
    find: 'credentialChanges("create", details ?? {})',
    replace: 'credentialChanges("create", details === undefined ? {} : {})',
    caughtBy: "test/integration/revocation/nothing-but-postgresql.test.ts",
  },
  {
    name: "planned-end-is-a-revocation",
    breaks: "A replaced credential ends without a revocation (decision 38)",
    file: "src/webhooks/revocation-notices.ts",
    find: 'type: "credential.ended",',
    replace: 'type: "credential.revoked",',
    caughtBy: "test/integration/credentials/planned-ends.test.ts",
  },
  {
    name: "ended-credential-gets-tokens",
    breaks: "A replaced credential gets no token after its overlap (docs/reference/operations.md)",
    file: "src/tokens/oauth/client-authentication.ts",
    find: "      (client.ends_at !== null && nowMs >= client.ends_at) ||\n",
    replace: "",
    caughtBy: "test/integration/credentials/planned-ends.test.ts",
  },
];

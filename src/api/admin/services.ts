import type { onRequestAsyncHookHandler } from "fastify";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { Pool } from "#database/pool.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import type { InProcessCalls } from "../in-process.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { Cells } from "#domain/regions.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { RotationRules } from "#domain/secret-version.ts";
import type { ClientIdentification } from "#http/mutual-tls/client-identification.ts";
import type { SignetServer } from "#http/types.ts";
import type { Overview } from "../schemas/overview.ts";
import type { Logger } from "#observability/logger.ts";
import type { ReadAudit } from "#tokens/operators/read-audit.ts";
import type { KeyAlgorithms } from "#tokens/signing-keys/rotate.ts";
import type { RevocationServices } from "#revocation/receipts.ts";
import type { OwnEventServices } from "#webhooks/ingest/own-event.ts";
import type { LimitDefaults } from "#config/tenant-limits.ts";
import type { CommitChange } from "./audited.ts";
import type { OperatorAccess } from "./operator-guard.ts";
import type { Pause } from "#temporal/open-workflow.ts";

/** The operators' console, which is made of pages of the portal. */
export interface Console {
  /** Creates the guard of its pages. */
  readonly guard: (required: readonly string[]) => onRequestAsyncHookHandler;
  readonly register: (server: SignetServer) => Promise<void>;
}

/** The dependencies of the operators' API. */
export interface AdminServices {
  /** Public URL of the service: base of the problem types, and issuer of the tokens. */
  readonly baseUrl: string;
  /** Set if regions have cells of their own. */
  readonly cells?: Cells | undefined;
  readonly access: OperatorAccess;
  /** Creates the console; absent for the API alone. */
  readonly console?:
    | ((
        services: AdminServices,
        overview: () => Promise<Overview>,
        calls: InProcessCalls<OperatorIdentity>,
      ) => Console)
    | undefined;
  /** Identifies a request's client, if the listener accepts certificates. */
  readonly clients: ClientIdentification;
  /** Whether the bootstrap operator is admitted. */
  readonly bootstrap: boolean;
  /** Pool with the role signet_operator, which may read all tenants. */
  readonly pool: Pool;
  /** Pool with the role signet_api, which reads one tenant at a time. */
  readonly tenantPool: Pool;
  /** Resolves if Temporal answers. */
  readonly checkTemporal: () => Promise<void>;
  /** Resolves to the pause of a workflow, undefined if it is not paused. Rejects if Temporal does not answer. */
  readonly findPause: (workflowId: string) => Promise<Pause | undefined>;
  /** Pool with the role signet_audit, which reads the compliance log. */
  readonly auditPool: Pool;
  /** Commits changes with their compliance entries. */
  readonly commit: CommitChange;
  /** Whether credentials of production principals must name a certificate: true if mutual TLS is on. */
  readonly certificatesRequired: boolean;
  /** Permitted algorithms of clients' assertions. */
  readonly assertionAlgorithms: readonly string[];
  readonly keyring: Keyring;
  readonly timers: Timers;
  /** Records in the compliance log what operators read. */
  readonly readAudit: ReadAudit;
  readonly pepper: Pepper;
  /** Publishes revocations and waits for their receipts. */
  readonly revocation: RevocationServices & OwnEventServices;
  readonly rotationRules: RotationRules;
  /** Default limits of tenants. */
  readonly limitDefaults: LimitDefaults;
  /** Algorithms of new signing keys. */
  readonly algs: KeyAlgorithms;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

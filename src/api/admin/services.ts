import type { PayloadCodec } from "@temporalio/common";
import type { Keyring } from "../../crypto/keyring.ts";
import type { Pepper } from "../../crypto/pepper.ts";
import type { Pool } from "../../database/pool.ts";
import type { SigningAlgorithm } from "../../database/repositories/tokens/signing-keys.ts";
import type { Clock } from "../../domain/clock.ts";
import type { RandomBytes } from "../../domain/ids.ts";
import type { RotationRules } from "../../domain/secret-version.ts";
import type { ClientIdentification } from "../../http/mutual-tls/client-identification.ts";
import type { Logger } from "../../observability/logger.ts";
import type { HistoryAudit } from "../../tokens/operators/history-audit.ts";
import type { RevocationServices } from "../../revocation/receipts.ts";
import type { LimitDefaults } from "../../config/tenant-limits.ts";
import type { CommitChange } from "./audited.ts";
import type { OperatorAccess } from "./operator-guard.ts";

/** What the operators' API works with. */
export interface AdminServices {
  /** The address that problem types live under. */
  readonly baseUrl: string;
  readonly access: OperatorAccess;
  /** Who stands behind a request, where the listener takes certificates. */
  readonly clients: ClientIdentification;
  /** Whether the bootstrap operator is let in. */
  readonly bootstrap: boolean;
  /** Role signet_operator, which sees every tenant. */
  readonly pool: Pool;
  /** Role signet_audit, which reads the compliance log. */
  readonly auditPool: Pool;
  /** For whatever changes something. */
  readonly commit: CommitChange;
  /** Whether production principals get only credentials that name a certificate: wherever mutual TLS is on. */
  readonly certificatesRequired: boolean;
  readonly keyring: Keyring;
  /** Opens payloads of workflows. */
  readonly codec: PayloadCodec;
  /** Whether workflows' payloads are encrypted now. */
  readonly encrypts: boolean;
  /** Origin of Temporal's UI, the only one whose pages may ask for that. */
  readonly uiOrigin: string | undefined;
  /** Tells the compliance log who reads histories. */
  readonly historyAudit: HistoryAudit;
  readonly pepper: Pepper;
  /** What revocations are made with and waited for. */
  readonly revocation: RevocationServices;
  readonly rotationRules: RotationRules;
  /** What stands where a tenant has no limit of its own. */
  readonly limitDefaults: LimitDefaults;
  /** Of signing keys made from now on. */
  readonly alg: SigningAlgorithm;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

import type { Keyring } from "../../crypto/keyring.ts";
import type { Pepper } from "../../crypto/pepper.ts";
import type { Pool } from "../../database/pool.ts";
import type { Clock } from "../../domain/clock.ts";
import type { RandomBytes } from "../../domain/ids.ts";
import type { Logger } from "../../observability/logger.ts";

/** What the operators' API works with. */
export interface AdminServices {
  /** The address that problem types live under. */
  readonly baseUrl: string;
  readonly operatorToken: string;
  /** Role signet_operator, which sees every tenant. */
  readonly pool: Pool;
  readonly keyring: Keyring;
  readonly pepper: Pepper;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

import { TenantHeldError } from "#domain/errors.ts";
import { isRefusedByState } from "#database/errors.ts";

/**
 * Changes a part of endpoints that a hold protects.
 *
 * @throws TenantHeldError if the tenant is on hold
 */
export async function unlessHeld(
  part: "secrets" | "authentication",
  write: () => Promise<void>,
): Promise<void> {
  try {
    await write();
  } catch (error) {
    throw isRefusedByState(error, "endpoint_secrets_frozen") ? new TenantHeldError(part, error) : error;
  }
}

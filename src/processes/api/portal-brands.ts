/** The portal's brands: the installation's from the settings, tenants' from the database. */
import { readFileSync } from "node:fs";
import { type Config, ConfigError } from "#config/config.ts";
import type { Pool } from "#database/pool.ts";
import { findPortalBrand } from "#database/repositories/portal-brands.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { LOGO_MAX, logoType, type PortalBrand, type PortalLogo } from "#domain/portal-brand.ts";
import { PortalBrands } from "#portal/brand.ts";
import { messageOf } from "#runtime/thrown.ts";

export type BrandSettings = Pick<
  Config,
  "portalName" | "portalLogoFile" | "portalAccent" | "portalAccentDark" | "portalReturnUrl" | "portalSupport"
>;

/** @throws ConfigError unless the file is a PNG or WebP image of at most 32 KiB */
function loadLogo(path: string): PortalLogo {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw new ConfigError([`SIGNET_PORTAL_LOGO_FILE cannot be read: ${messageOf(error)}`]);
  }
  const type = bytes.length > LOGO_MAX ? undefined : logoType(bytes);
  if (type === undefined) {
    throw new ConfigError([
      `SIGNET_PORTAL_LOGO_FILE must be a PNG or WebP image of at most ${LOGO_MAX} bytes: ${path}`,
    ]);
  }
  return { type, data: bytes.toString("base64") };
}

function brandOf(config: BrandSettings): Partial<PortalBrand> {
  const { portalLogoFile: file } = config;
  const brand = {
    name: config.portalName,
    accent: config.portalAccent,
    accentDark: config.portalAccentDark,
    returnUrl: config.portalReturnUrl,
    support: config.portalSupport,
    logo: file === undefined ? undefined : loadLogo(file),
  };
  return Object.fromEntries(Object.entries(brand).filter(([, value]) => value !== undefined));
}

/**
 * Opens the brands.
 *
 * @param pool pool with the role signet_api
 * @throws ConfigError if the logo cannot be used
 */
export function openPortalBrands(config: BrandSettings, pool: Pool): PortalBrands {
  return new PortalBrands({
    settings: brandOf(config),
    find: async (tenantId) =>
      (await tenantTransaction(pool, tenantId, async (db) => await findPortalBrand(db, tenantId))) ?? {},
    monotonic: machineTimers.monotonic,
  });
}

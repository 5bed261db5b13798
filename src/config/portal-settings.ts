/** Settings of the tenant portal. */
import { setting, url } from "./setting.ts";

const ADDRESS = url("https:", "http:");

export const PORTAL_SETTINGS = {
  portalUrl: setting(
    "SIGNET_PORTAL_URL",
    ADDRESS,
    undefined,
    "the address that browsers use for the portal, where it is not SIGNET_PUBLIC_URL; production needs https",
  ),
  temporalUiUrl: setting(
    "SIGNET_TEMPORAL_UI_URL",
    ADDRESS,
    undefined,
    "Temporal's web UI; the portal then links to it, for operators",
  ),
} as const;

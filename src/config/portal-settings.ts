/** Settings of the tenant portal. */
import { setting, url } from "./setting.ts";

const ADDRESS = url("https:", "http:");

export const PORTAL_SETTINGS = {
  portalUrl: setting(
    "SIGNET_PORTAL_URL",
    ADDRESS,
    undefined,
    "address at which browsers reach the portal, if it is not SIGNET_PUBLIC_URL; must be https in production",
  ),
  temporalUiUrl: setting(
    "SIGNET_TEMPORAL_UI_URL",
    ADDRESS,
    undefined,
    "Temporal's web UI; if set, the portal links to it for operators",
  ),
} as const;

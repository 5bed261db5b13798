/** Settings of the tenant portal. */
import { resolve } from "node:path";
import {
  accentProblem,
  BRAND_NAME_MAX,
  COLOUR_PATTERN,
  type ColourScheme,
  isSupport,
} from "#domain/portal-brand.ts";
import { list, type Parser, setting, url } from "./setting.ts";

const ADDRESS = url("https:", "http:");

function brandName(value: string): string {
  if (value.length > BRAND_NAME_MAX || /\p{Cc}/u.test(value)) {
    throw new Error(`must be one line of at most ${BRAND_NAME_MAX} characters`);
  }
  return value;
}

function accent(scheme: ColourScheme): Parser<string> {
  return (value) => {
    if (!new RegExp(COLOUR_PATTERN).test(value)) {
      throw new Error("must be a colour such as #2450c0");
    }
    const problem = accentProblem(value, scheme);
    if (problem !== undefined) {
      throw new Error(problem);
    }
    return value;
  };
}

function support(value: string): string {
  if (!isSupport(value)) {
    throw new Error("must be an e-mail address or an https URL");
  }
  return value;
}

/** Parses comma-separated origins, in the form in which browsers send them (RFC 6454, section 6.2). */
function origins(value: string): readonly string[] {
  const all = list(value);
  for (const origin of all) {
    if (!/^https?:/.test(origin) || !URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new Error("must be origins such as https://app.example.com, separated by commas");
    }
  }
  return all;
}

export const PORTAL_SETTINGS = {
  portalUrl: setting(
    "SIGNET_PORTAL_URL",
    ADDRESS,
    undefined,
    "address at which browsers reach the portal, if it is not SIGNET_PUBLIC_URL; must be https in production",
  ),
  portalName: setting(
    "SIGNET_PORTAL_NAME",
    brandName,
    undefined,
    "name of the portal, in its header and in titles; default: Signet",
  ),
  portalLogoFile: setting(
    "SIGNET_PORTAL_LOGO_FILE",
    resolve,
    undefined,
    "logo of the portal: a PNG or WebP image of at most 32 KiB, shown 24 pixels high",
  ),
  portalAccent: setting(
    "SIGNET_PORTAL_ACCENT",
    accent("light"),
    undefined,
    "colour of links and buttons, `#rrggbb`, with a contrast of 4.5:1 to the light pages",
  ),
  portalAccentDark: setting(
    "SIGNET_PORTAL_ACCENT_DARK",
    accent("dark"),
    undefined,
    "the same on dark pages; derived from SIGNET_PORTAL_ACCENT by default",
  ),
  portalReturnUrl: setting(
    "SIGNET_PORTAL_RETURN_URL",
    ADDRESS,
    undefined,
    "your application, to which the portal links back; must be https in production",
  ),
  portalSupport: setting(
    "SIGNET_PORTAL_SUPPORT",
    support,
    undefined,
    "e-mail address or https URL of your support, shown on every page of the portal",
  ),
  portalFrameOrigins: setting(
    "SIGNET_PORTAL_FRAME_ORIGINS",
    origins,
    undefined,
    "origins whose pages may show the portal in a frame, comma-separated; default: none; must be https in production",
  ),
  temporalUiUrl: setting(
    "SIGNET_TEMPORAL_UI_URL",
    ADDRESS,
    undefined,
    "Temporal's web UI; if set, the portal links to it for operators; `npm start` sets it to the embedded one",
  ),
} as const;

/** Values that production checks. */
interface PortalAddresses {
  readonly portalUrl: string | undefined;
  readonly portalReturnUrl: string | undefined;
  readonly portalFrameOrigins: readonly string[] | undefined;
}

/** Returns the settings that violate production's rules. */
export function portalProblems({
  portalUrl,
  portalReturnUrl,
  portalFrameOrigins = [],
}: PortalAddresses): string[] {
  const plain = (address: string | undefined): boolean => address?.startsWith("http:") === true;
  return [
    ...(plain(portalUrl) ? ["SIGNET_PORTAL_URL must be https in production"] : []),
    ...(plain(portalReturnUrl) ? ["SIGNET_PORTAL_RETURN_URL must be https in production"] : []),
    ...(portalFrameOrigins.some(plain) ? ["SIGNET_PORTAL_FRAME_ORIGINS must be https in production"] : []),
  ];
}

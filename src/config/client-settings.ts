/** Settings with which the command line reaches the service as a tenant. The service itself reads none of these. */
import { join, resolve } from "node:path";
import { homeDirectory } from "./home-directory.ts";
import { list, setting, text, url } from "./setting.ts";

const address = url("https:", "http:");

function addresses(value: string): readonly string[] {
  return list(value).map(address);
}

function profileName(value: string): string {
  if (!/^[a-z0-9][a-z0-9_-]{0,31}$/.test(value)) {
    throw new Error("must be lower-case letters, digits, _ and -, 32 at most");
  }
  return value;
}

export const CLIENT_SETTINGS = {
  apiUrl: setting(
    "SIGNET_API_URL",
    address,
    undefined,
    "command line, for tenants: URL of the API; default: the profile's address, else http:// and SIGNET_API_LISTEN",
  ),
  apiRegionUrls: setting(
    "SIGNET_API_REGION_URLS",
    addresses,
    "",
    "command line, for tenants: base URLs of other regions' APIs, comma-separated. An answer 421 leads to these and the API only: the token goes along",
  ),
  clientId: setting(
    "SIGNET_CLIENT_ID",
    text,
    undefined,
    "command line, for tenants: the client id; replaces a profile",
  ),
  clientSecret: setting("SIGNET_CLIENT_SECRET", text, undefined, "command line, for tenants: its secret"),
  clientSecretFile: setting(
    "SIGNET_CLIENT_SECRET_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_CLIENT_SECRET",
  ),
  clientKeyFile: setting(
    "SIGNET_CLIENT_KEY_FILE",
    resolve,
    undefined,
    "command line, for tenants: private key of the client certificate for mutual TLS, PEM",
  ),
  clientCertFile: setting(
    "SIGNET_CLIENT_CERT_FILE",
    resolve,
    undefined,
    "command line, for tenants: that certificate",
  ),
  apiCaFile: setting(
    "SIGNET_API_CA_FILE",
    resolve,
    undefined,
    "command line, for tenants: root certificates for the API over TLS; default: the system's",
  ),
  profile: setting(
    "SIGNET_PROFILE",
    profileName,
    "default",
    "command line, for tenants: name of a profile written by `signet login`",
  ),
  profileDir: setting(
    "SIGNET_CONFIG_DIR",
    resolve,
    join(homeDirectory(), ".config", "signet"),
    "command line: directory of the profiles, mode 0700",
  ),
} as const;

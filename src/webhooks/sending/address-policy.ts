/**
 * The address policy: where deliveries may go. It stands between tenants, who choose the URLs, and our own
 * network, which the sender can reach and they must not (server-side request forgery). The same policy is asked
 * at registration, before each send and at each connect, with the address that is really connected to.
 */
import { type AddressSet, type AddressWords, addressSet, addressWords } from "../../runtime/address-set.ts";
import type { OwnTargets } from "./own-listeners.ts";
import type { TargetUrl } from "./url-rules.ts";
import { forbiddenUrl, parseTargetUrl } from "./url-rules.ts";

/** A host and a port that this service itself listens on. */
type OwnListener = OwnTargets["listeners"][number];

/** Settings of the policy. */
export interface AddressPolicyOptions {
  /**
   * Ranges that are allowed although they are not public; in development 127.0.0.0/8 and ::1. What a cloud keeps for
   * itself (NEVER) stays closed inside them.
   */
  readonly allowedCidrs: readonly string[];
  /** Further ranges to refuse, for instance the operator's own public addresses. They win. */
  readonly deniedCidrs?: readonly string[];
  /** Whether http:// is allowed; development only. */
  readonly allowHttp: boolean;
  /** Host and port pairs that must not become a target whatever the ranges say. */
  readonly ownListeners: readonly OwnListener[];
  /** Names of the deployment's own URLs: no targets at any port. */
  readonly ownNames?: readonly string[];
  /** The addresses that a wildcard listener answers at, besides loopback. */
  readonly localAddresses?: OwnTargets["localAddresses"];
}

/** Where a connection is about to go, or went. */
interface ConnectionTarget {
  /** The host of the URL, lower case, without brackets. */
  readonly hostname: string;
  readonly address: string;
  readonly port: number;
}

/** The answers. */
export interface AddressPolicy {
  /**
   * Checks a URL and returns it parsed; store its `href`.
   *
   * @throws SignetError `TARGET_URL_FORBIDDEN`
   */
  checkUrl(raw: string): URL;
  /** Like `checkUrl`, with the parts that a connection needs. */
  parseTarget(raw: string): TargetUrl;
  /** Whether an IPv4 or IPv6 address may be connected to at all. */
  allows(address: string): boolean;
  /** Whether this host may be connected to at this address and port. */
  allowsConnection(target: ConnectionTarget): boolean;
}

/** IANA special-purpose IPv4 ranges (RFC 6890 and its registry), and Azure's wire server in a public range. */
const DENIED_IPV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "168.63.129.16/32",
];
/**
 * Global unicast is all of IPv6 that is public. This alone refuses every range that embeds an IPv4 address outside
 * it: compatible, mapped, NAT64; and fc00::/7, fe80::/10, ff00::/8.
 */
const PUBLIC_IPV6 = ["2000::/3"];
/** Teredo, ORCHID, benchmarking, documentation, 6to4, AS112. */
const DENIED_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"];
/** What is public by default, in the form of a Kubernetes `ipBlock`: for walls around the worker that say the same. */
export const PUBLIC_BLOCKS = [
  { cidr: "0.0.0.0/0", except: DENIED_IPV4 },
  ...PUBLIC_IPV6.map((cidr) => ({ cidr, except: DENIED_IPV6 })),
];
const LOOPBACK = ["127.0.0.0/8", "::1/128"];
/**
 * What no allow-list opens: the addresses at which clouds give a machine its own credentials (link-local, and those of
 * Azure, Alibaba, Oracle and AWS outside it), and what is no address of a receiver at all.
 */
const NEVER = addressSet([
  "0.0.0.0/8",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "192.0.0.192/32",
  "224.0.0.0/4",
  "255.255.255.255/32",
  "fd00:ec2::/32",
]);
/** IPv6 ranges that an allow-list may open: the others embed IPv4 addresses, name an interface, or are no unicast. */
const OPENABLE_IPV6 = [
  { range: addressSet(["2000::/3"]), shortest: 3 },
  { range: addressSet(["fc00::/7"]), shortest: 7 },
  { range: addressSet(["::1/128"]), shortest: 128 },
];

const LOOPBACK_SET = addressSet(LOOPBACK);

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

/** A listener that answers on loopback: every spelling of loopback, and the wildcards, are the same to it. */
function isLocal(host: string): boolean {
  return host === "localhost" || isWildcard(host) || LOOPBACK_SET.has(host);
}

function isOwn(
  { ownListeners, localAddresses }: Pick<AddressPolicyOptions, "localAddresses" | "ownListeners">,
  host: string,
  port: number,
): boolean {
  return ownListeners.some((listener) => {
    if (listener.port !== port) {
      return false;
    }
    const own = listener.host.toLowerCase().replace(/^\[|\]$/g, "");
    return (
      own === host ||
      (isLocal(own) && isLocal(host)) ||
      (isWildcard(own) && localAddresses?.().includes(host) === true)
    );
  });
}

/**
 * Reads ranges for the allow-list.
 *
 * @throws TypeError for a malformed range, and for one of IPv6 that an allow-list may not open
 */
function allowedTargets(cidrs: readonly string[]): AddressSet {
  const ranges = addressSet(cidrs);
  for (const cidr of cidrs) {
    const [address = "", prefix = "128"] = cidr.split("/");
    const openable = OPENABLE_IPV6.some(
      ({ range, shortest }) => range.has(address) && Number(prefix) >= shortest,
    );
    if (address.includes(":") && !openable) {
      throw new TypeError(`${cidr} cannot be opened: IPv6 only within 2000::/3 and fc00::/7, and ::1`);
    }
  }
  return ranges;
}

/**
 * @throws TypeError for a malformed range
 */
export function createAddressPolicy(options: AddressPolicyOptions): AddressPolicy {
  const { allowHttp } = options;
  const ownNames = new Set(options.ownNames);
  const allowed = allowedTargets(options.allowedCidrs);
  const denied = addressSet(options.deniedCidrs ?? []);
  const special = addressSet([...DENIED_IPV4, ...DENIED_IPV6]);
  const publicIpv6 = addressSet(PUBLIC_IPV6);
  const rules = { allowHttp, allowLocalhost: allowed.has("127.0.0.1") || allowed.has("::1") };

  function isPublic(address: AddressWords): boolean {
    return (address.length === 1 || publicIpv6.contains(address)) && !special.contains(address);
  }
  function allows(address: string): boolean {
    // A zone id names an interface of this machine.
    const words = address.includes("%") ? null : addressWords(address);
    if (words === null || denied.contains(words) || NEVER.contains(words)) {
      return false;
    }
    return allowed.contains(words) || isPublic(words);
  }
  function parseTarget(raw: string): TargetUrl {
    const target = parseTargetUrl(raw, rules);
    const { hostname, port, literal } = target;
    // Public services are named; a literal is allowed only where the operator opened its range.
    if (
      (literal && !(allowed.has(hostname) && allows(hostname))) ||
      ownNames.has(hostname) ||
      isOwn(options, hostname, port)
    ) {
      throw forbiddenUrl("The host and port are not an allowed target.");
    }
    return target;
  }

  return {
    checkUrl: (raw) => parseTarget(raw).url,
    parseTarget,
    allows,
    allowsConnection({ hostname, address, port }) {
      if (hostname === "localhost" && !LOOPBACK_SET.has(address)) {
        return false;
      }
      return allows(address) && !isOwn(options, address, port);
    },
  };
}

/** The settings that the policy follows, in every process that asks it. */
interface PolicySettings {
  readonly allowedTargetCidrs: readonly string[];
  readonly deniedTargetCidrs: readonly string[];
  readonly allowHttpTargets: boolean;
}

/** The one policy of a deployment: the api asks it at registration, the worker at each ping and delivery. */
export function configuredPolicy(
  config: PolicySettings,
  { listeners, urls, localAddresses }: OwnTargets,
): AddressPolicy {
  return createAddressPolicy({
    allowedCidrs: config.allowedTargetCidrs,
    deniedCidrs: config.deniedTargetCidrs,
    allowHttp: config.allowHttpTargets,
    ownListeners: listeners,
    ownNames: urls.map(({ host }) => host),
    localAddresses,
  });
}

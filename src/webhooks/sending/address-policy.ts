/**
 * The address policy decides where deliveries may go. It protects our own network from tenants, who choose the URLs
 * (server-side request forgery). It runs at registration, before each send, and at each connect with the address that
 * is actually used.
 */
import { type AddressWords, AddressSet, addressWords } from "#runtime/address-set.ts";
import type { OwnTargets } from "./own-listeners.ts";
import type { TargetUrl, UrlRules } from "./url-rules.ts";
import { forbiddenUrl, parseTargetUrl } from "./url-rules.ts";

/** A host and port that this service listens on. */
type OwnListener = OwnTargets["listeners"][number];

/** Settings of the policy. */
export interface AddressPolicyOptions {
  /**
   * Non-public ranges that are allowed; in development 127.0.0.0/8 and ::1. Addresses that clouds reserve for
   * themselves (NEVER) stay blocked.
   */
  readonly allowedCidrs: readonly string[];
  /** More ranges to reject, for instance the operator's own public addresses. They take precedence. */
  readonly deniedCidrs?: readonly string[];
  /** Whether http:// is allowed; for development only. */
  readonly allowHttp: boolean;
  /** Host and port pairs that are never targets, whatever the ranges say. */
  readonly ownListeners: readonly OwnListener[];
  /** Names of the deployment's own URLs, which are never targets at any port. */
  readonly ownNames?: readonly string[];
  /** Addresses, other than loopback, of a wildcard listener. */
  readonly localAddresses?: OwnTargets["localAddresses"];
}

/** Target of a connection. */
interface ConnectionTarget {
  /** The host of the URL, lower case, without brackets. */
  readonly hostname: string;
  readonly address: string;
  readonly port: number;
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
 * All public IPv6 is global unicast. This alone excludes every range outside it that embeds an IPv4 address
 * (compatible, mapped, NAT64), and fc00::/7, fe80::/10 and ff00::/8.
 */
const PUBLIC_IPV6 = ["2000::/3"];
/** Teredo, ORCHID, benchmarking, documentation, 6to4, AS112. */
const DENIED_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"];
/**
 * The default public ranges in the form of a Kubernetes `ipBlock`, so that network policies around the worker match.
 */
export const PUBLIC_BLOCKS = [
  { cidr: "0.0.0.0/0", except: DENIED_IPV4 },
  ...PUBLIC_IPV6.map((cidr) => ({ cidr, except: DENIED_IPV6 })),
];
const LOOPBACK = ["127.0.0.0/8", "::1/128"];
/**
 * Addresses that no allow-list opens. Some give a cloud machine its credentials: link-local ones, and others of
 * Azure, Alibaba, Oracle and AWS. The rest cannot belong to a receiver.
 */
const NEVER = new AddressSet([
  "0.0.0.0/8",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "192.0.0.192/32",
  "224.0.0.0/4",
  "255.255.255.255/32",
  "fd00:ec2::/32",
]);
/**
 * IPv6 ranges that an allow-list may open. The others embed IPv4 addresses, name an interface, or are not unicast.
 */
const OPENABLE_IPV6 = [
  { range: new AddressSet(["2000::/3"]), shortest: 3 },
  { range: new AddressSet(["fc00::/7"]), shortest: 7 },
  { range: new AddressSet(["::1/128"]), shortest: 128 },
];

const LOOPBACK_SET = new AddressSet(LOOPBACK);
const SPECIAL = new AddressSet([...DENIED_IPV4, ...DENIED_IPV6]);
const PUBLIC_IPV6_SET = new AddressSet(PUBLIC_IPV6);

function isPublic(address: AddressWords): boolean {
  return (address.length === 1 || PUBLIC_IPV6_SET.contains(address)) && !SPECIAL.contains(address);
}

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

/** Whether a listener answers on loopback. All spellings of loopback, and wildcards, are equivalent to it. */
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
 * Parses the ranges of the allow-list.
 *
 * @throws TypeError for a malformed range, or an IPv6 range that an allow-list may not open
 */
function allowedTargets(cidrs: readonly string[]): AddressSet {
  const ranges = new AddressSet(cidrs);
  for (const cidr of cidrs) {
    const [address = "", prefix = "128"] = cidr.split("/");
    const openable = OPENABLE_IPV6.some(
      ({ range, shortest }) => range.has(address) && Number(prefix) >= shortest,
    );
    if (address.includes(":") && !openable) {
      throw new TypeError(
        `${cidr} cannot be allowed: IPv6 ranges must be within 2000::/3 or fc00::/7, or be ::1`,
      );
    }
  }
  return ranges;
}

/** Checks URLs and addresses. */
export class AddressPolicy {
  readonly #options: AddressPolicyOptions;
  readonly #rules: UrlRules;
  readonly #ownNames: ReadonlySet<string>;
  readonly #allowed: AddressSet;
  readonly #denied: AddressSet;

  /** @throws TypeError for a malformed range */
  constructor(options: AddressPolicyOptions) {
    const allowed = allowedTargets(options.allowedCidrs);
    this.#options = options;
    this.#ownNames = new Set(options.ownNames);
    this.#allowed = allowed;
    this.#denied = new AddressSet(options.deniedCidrs ?? []);
    const allowLocalhost = allowed.has("127.0.0.1") || allowed.has("::1");
    this.#rules = { allowHttp: options.allowHttp, allowLocalhost };
  }

  /**
   * Checks a URL and returns it parsed. Callers store its `href`.
   *
   * @throws SignetError `TARGET_URL_FORBIDDEN`
   */
  checkUrl(raw: string): URL {
    return this.parseTarget(raw).url;
  }

  /** Like `checkUrl`, but returns the parts that a connection needs. */
  parseTarget(raw: string): TargetUrl {
    const target = parseTargetUrl(raw, this.#rules);
    const { hostname, port, literal } = target;
    // Public services have names. A literal address is allowed only in a range that the operator opened.
    if (
      (literal && !(this.#allowed.has(hostname) && this.allows(hostname))) ||
      this.#ownNames.has(hostname) ||
      isOwn(this.#options, hostname, port)
    ) {
      throw forbiddenUrl("The host and port are not an allowed target.");
    }
    return target;
  }

  /** Whether connections to an IPv4 or IPv6 address are allowed. */
  allows(address: string): boolean {
    // A zone id names an interface of this machine.
    const words = address.includes("%") ? null : addressWords(address);
    if (words === null || this.#denied.contains(words) || NEVER.contains(words)) {
      return false;
    }
    return this.#allowed.contains(words) || isPublic(words);
  }

  /** Whether connections to this host at this address and port are allowed. */
  allowsConnection({ hostname, address, port }: ConnectionTarget): boolean {
    if (hostname === "localhost" && !LOOPBACK_SET.has(address)) {
      return false;
    }
    return this.allows(address) && !isOwn(this.#options, address, port);
  }
}

/** Settings that the policy follows in every process. */
interface PolicySettings {
  readonly allowedTargetCidrs: readonly string[];
  readonly deniedTargetCidrs: readonly string[];
  readonly allowHttpTargets: boolean;
}

/** Creates the deployment's policy. The API applies it at registration, the worker at each ping and delivery. */
export function configuredPolicy(
  config: PolicySettings,
  { listeners, urls, localAddresses }: OwnTargets,
): AddressPolicy {
  return new AddressPolicy({
    allowedCidrs: config.allowedTargetCidrs,
    deniedCidrs: config.deniedTargetCidrs,
    allowHttp: config.allowHttpTargets,
    ownListeners: listeners,
    ownNames: urls.map(({ host }) => host),
    localAddresses,
  });
}

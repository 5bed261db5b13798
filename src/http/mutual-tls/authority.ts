/** A small certificate authority for development and tests: P-256 keys, X.509 v3, no storage. */
// Import before the library, which registers its classes with reflect-metadata.
import "reflect-metadata";
import { createPrivateKey, createPublicKey, KeyObject, type webcrypto } from "node:crypto";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  type JsonGeneralNames,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";

const ECDSA = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** A private key and its certificate, in PEM. */
export interface KeyPair {
  readonly key: string;
  readonly cert: string;
}

export interface CertificateRequest {
  /** An X.500 name, for instance `CN=client`. */
  readonly subject: string;
  readonly names?: JsonGeneralNames;
  readonly purposes?: readonly ("clientAuth" | "serverAuth")[];
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** Present for an authority; `pathLength` is the number of authorities allowed below it. */
  readonly authority?: { readonly pathLength?: number };
  /** Additional extensions. */
  readonly extensions?: readonly {
    readonly oid: string;
    readonly critical: boolean;
    readonly value: Buffer;
  }[];
}

type Keys = webcrypto.CryptoKeyPair;

async function generateKeys(): Promise<Keys> {
  return await crypto.subtle.generateKey(ECDSA, true, ["sign", "verify"]);
}

function keyPem(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ format: "pem", type: "pkcs8" }) as string;
}

async function extensionsOf(request: CertificateRequest, keys: Keys, issuer: Keys): Promise<Extension[]> {
  const { authority, names, purposes } = request;
  const usage =
    authority === undefined
      ? new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true)
      : new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true);
  return [
    new BasicConstraintsExtension(authority !== undefined, authority?.pathLength, true),
    usage,
    await SubjectKeyIdentifierExtension.create(keys.publicKey),
    await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ...(purposes === undefined
      ? []
      : [new ExtendedKeyUsageExtension(purposes.map((purpose) => ExtendedKeyUsage[purpose]))]),
    ...(names === undefined ? [] : [new SubjectAlternativeNameExtension(names)]),
    ...(request.extensions ?? []).map(({ oid, critical, value }) => new Extension(oid, critical, value)),
  ];
}

/** An authority with its key. */
export class Authority implements KeyPair {
  readonly key: string;
  readonly cert: string;
  /** Its X.500 name. */
  readonly subject: string;
  readonly #keys: Keys;

  constructor(subject: string, keys: Keys, cert: string) {
    this.key = keyPem(keys.privateKey);
    this.cert = cert;
    this.subject = subject;
    this.#keys = keys;
  }

  /** Creates a key and a certificate for it. */
  async issue(request: CertificateRequest): Promise<KeyPair> {
    const made = await this.#certify(request);
    return { key: keyPem(made.keys.privateKey), cert: made.cert };
  }

  /** Creates an authority below this one. */
  async issueAuthority(request: CertificateRequest): Promise<Authority> {
    const made = await this.#certify({ ...request, authority: request.authority ?? {} });
    return new Authority(request.subject, made.keys, made.cert);
  }

  async #certify(request: CertificateRequest): Promise<{ keys: Keys; cert: string }> {
    const own = await generateKeys();
    const made = await X509CertificateGenerator.create({
      subject: request.subject,
      issuer: this.subject,
      notBefore: request.notBefore,
      notAfter: request.notAfter,
      signingAlgorithm: ECDSA,
      publicKey: own.publicKey,
      signingKey: this.#keys.privateKey,
      extensions: await extensionsOf(request, own, this.#keys),
    });
    return { keys: own, cert: `${made.toString("pem")}\n` };
  }
}

/** Creates a root authority. */
export async function createAuthority(request: CertificateRequest): Promise<Authority> {
  const keys = await generateKeys();
  const made = await X509CertificateGenerator.createSelfSigned({
    name: request.subject,
    keys,
    notBefore: request.notBefore,
    notAfter: request.notAfter,
    signingAlgorithm: ECDSA,
    extensions: await extensionsOf({ ...request, authority: request.authority ?? {} }, keys, keys),
  });
  return new Authority(request.subject, keys, `${made.toString("pem")}\n`);
}

/** Opens an existing authority, also one that another program created. */
export async function openAuthority(pair: KeyPair): Promise<Authority> {
  const load = async (key: KeyObject, usage: "sign" | "verify"): Promise<webcrypto.CryptoKey> =>
    await crypto.subtle.importKey("jwk", key.export({ format: "jwk" }), ECDSA, true, [usage]);
  const privateKey = await load(createPrivateKey(pair.key), "sign");
  const publicKey = await load(createPublicKey(pair.key), "verify");
  return new Authority(new X509Certificate(pair.cert).subject, { privateKey, publicKey }, pair.cert);
}

/** Certificates of any shape: shared keys, odd extensions, weak keys. Test CAs of ordinary shape are in certificates.ts. */
import "reflect-metadata";
import { KeyObject, type webcrypto } from "node:crypto";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  Extension,
  type JsonGeneralNames,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import type { KeyPair } from "#http/mutual-tls/authority.ts";
import type { CertificateProblem } from "#http/mutual-tls/certificate-chain.ts";
import { keyPairOf, type KEYS } from "./weak-certificates.ts";

const DAY_MS = 86_400_000;
export const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
export const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
export const ANY_PURPOSE = "2.5.29.37.0";

/** A certificate with its key. */
export interface Made extends KeyPair {
  readonly subject: string;
  readonly keys: webcrypto.CryptoKeyPair;
}

/** What a certificate has; an ordinary one by default. */
export interface Recipe {
  readonly subject: string;
  /** The key's kind, or the certificate whose key it shares. */
  readonly key?: keyof typeof KEYS | Made;
  /** Validity in days from now. */
  readonly days?: readonly [from: number, until: number];
  /** Whether basic constraints say that it is an authority; null for none. */
  readonly ca?: boolean | null;
  readonly pathLength?: number;
  /** Flags of its key usage; null for none. */
  readonly keyUsage?: KeyUsageFlags | null;
  /** Object identifiers of its extended key usage. */
  readonly purposes?: readonly string[];
  readonly names?: JsonGeneralNames;
  readonly extensions?: readonly {
    readonly oid: string;
    readonly critical: boolean;
    readonly value: Buffer;
  }[];
  /** Whether it has the identifiers of its key and its issuer's, which narrow the search for issuers. */
  readonly keyIds?: boolean;
  /** Hash of the issuer's signature. */
  readonly hash?: "SHA-1" | "SHA-256";
}

/** Returns a DER value with a content shorter than 128 bytes. */
export function der(tag: number, ...contents: readonly (Buffer | string)[]): Buffer {
  const content = Buffer.concat(contents.map((part) => Buffer.from(part as string)));
  return Buffer.concat([Buffer.of(tag, content.length), content]);
}

async function extensionsOf(recipe: Recipe, keys: webcrypto.CryptoKeyPair, issuer: webcrypto.CryptoKeyPair) {
  const { ca = false, pathLength, purposes, names, extensions = [] } = recipe;
  const ordinary = ca === true ? KeyUsageFlags.keyCertSign : KeyUsageFlags.digitalSignature;
  return [
    ...(ca === null ? [] : [new BasicConstraintsExtension(ca, pathLength, true)]),
    ...(recipe.keyUsage === null ? [] : [new KeyUsagesExtension(recipe.keyUsage ?? ordinary, true)]),
    ...(recipe.keyIds === false
      ? []
      : [
          await SubjectKeyIdentifierExtension.create(keys.publicKey),
          await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
        ]),
    ...(purposes === undefined ? [] : [new ExtendedKeyUsageExtension([...purposes])]),
    ...(names === undefined ? [] : [new SubjectAlternativeNameExtension(names)]),
    ...extensions.map(({ oid, critical, value }) => new Extension(oid, critical, value)),
  ];
}

/** Makes a certificate; without an issuer, it signs itself. */
export async function make(recipe: Recipe, issuer?: Made): Promise<Made> {
  const { subject, key = "P-256", days: [from, until] = [-1, 30], hash = "SHA-256" } = recipe;
  const keys = typeof key === "string" ? await keyPairOf(key) : key.keys;
  const signer = issuer?.keys ?? keys;
  const { name } = signer.privateKey.algorithm;
  const made = await X509CertificateGenerator.create({
    subject,
    issuer: issuer?.subject ?? subject,
    notBefore: new Date(Date.now() + from * DAY_MS),
    notAfter: new Date(Date.now() + until * DAY_MS),
    signingAlgorithm: { name, hash } as webcrypto.EcdsaParams,
    publicKey: keys.publicKey,
    signingKey: signer.privateKey,
    extensions: await extensionsOf(recipe, keys, signer),
  });
  return {
    subject,
    keys,
    key: KeyObject.from(keys.privateKey).export({ format: "pem", type: "pkcs8" }) as string,
    cert: `${made.toString("pem")}\n`,
  };
}

/** What a client presents, and which authorities are in the file for it. */
export interface Chain {
  readonly leaf: Made;
  readonly sent: readonly Made[];
  readonly anchors: readonly Made[];
}

export interface ChainCase {
  readonly name: string;
  readonly verdict: "ok" | CertificateProblem;
  /** Whether OpenSSL answers otherwise, and why. */
  readonly openSsl?: string;
  readonly build: () => Promise<Chain>;
}

/** A URI that every leaf has, by which proxies and hubs know it. */
export const SPIFFE = "spiffe://clients.example.com/billing";
const AUTHORITY = "CN=Intermediate";
export const LEAF = "CN=client";

let count = 0;
/** Makes a root. Names differ between the cases, because all their roots are in one file. */
export async function root(recipe: Partial<Recipe> = {}): Promise<Made> {
  count += 1;
  return await make({ subject: `CN=Root ${count}`, ca: true, ...recipe });
}
/** Makes an intermediate. */
export const authority = async (issuer: Made, recipe: Partial<Recipe> = {}): Promise<Made> =>
  await make({ subject: AUTHORITY, ca: true, ...recipe }, issuer);
/** Makes a client's certificate. */
export const client = async (issuer: Made, recipe: Partial<Recipe> = {}): Promise<Made> =>
  await make(
    { subject: LEAF, purposes: [CLIENT_AUTH], names: [{ type: "url", value: SPIFFE }], ...recipe },
    issuer,
  );

/** Builds a root, an intermediate below it, and a leaf, each changed by a recipe. */
export function three(
  changes: {
    readonly root?: Partial<Recipe>;
    readonly authority?: Partial<Recipe>;
    readonly leaf?: Partial<Recipe>;
  } = {},
): () => Promise<Chain> {
  return async () => {
    const top = await root(changes.root);
    const middle = await authority(top, changes.authority);
    return { leaf: await client(middle, changes.leaf), sent: [middle], anchors: [top] };
  };
}

/** An extension, of no content by default. */
export const extension = (oid: string, critical: boolean, value = der(0x05)) => ({
  extensions: [{ oid, critical, value }],
});

/** Chains of clients, each with the verdict that every path must reach. */
import "reflect-metadata";
import { KeyUsageFlags } from "@peculiar/x509";
import { CONSTRAINED_CHAINS } from "./constrained-chains.ts";
import {
  ANY_PURPOSE,
  authority,
  type Chain,
  type ChainCase,
  client,
  CLIENT_AUTH,
  der,
  extension,
  LEAF,
  make,
  type Made,
  root,
  SERVER_AUTH,
  three,
} from "./made-certificates.ts";

const OID = "1.3.6.1.4.1.99999.1";

/** A chain of this many intermediates, which the client sends in an order. */
function deep(depth: number, order: (sent: readonly Made[]) => readonly Made[]): () => Promise<Chain> {
  return async () => {
    const top = await root();
    const sent: Made[] = [];
    let issuer = top;
    for (let level = 0; level < depth; level += 1) {
      issuer = await authority(issuer, { subject: `CN=Level ${level}` });
      sent.unshift(issuer);
    }
    return { leaf: await client(issuer), sent: order(sent), anchors: [top] };
  };
}

const same = (sent: readonly Made[]): readonly Made[] => sent;
/** Certificate policies: one policy. */
const POLICIES = der(0x30, der(0x30, der(0x06, Buffer.of(0x2a, 0x03, 0x04))));

const SHAPES: readonly ChainCase[] = [
  {
    name: "a leaf below the root",
    verdict: "ok",
    build: async () => {
      const top = await root();
      return { leaf: await client(top), sent: [], anchors: [top] };
    },
  },
  { name: "one intermediate", verdict: "ok", build: three() },
  { name: "two intermediates", verdict: "ok", build: deep(2, same) },
  { name: "four intermediates", verdict: "ok", build: deep(4, same) },
  { name: "intermediates in the reverse order", verdict: "ok", build: deep(3, (sent) => sent.toReversed()) },
  { name: "an intermediate sent twice", verdict: "ok", build: deep(1, (sent) => [...sent, ...sent]) },
  { name: "a missing intermediate", verdict: "not trusted", build: deep(2, (sent) => sent.slice(0, 1)) },
  { name: "no intermediate at all", verdict: "not trusted", build: deep(1, () => []) },
  {
    name: "the root sent, too",
    verdict: "ok",
    build: async () => {
      const chain = await three()();
      return { ...chain, sent: [...chain.sent, ...chain.anchors] };
    },
  },
  {
    name: "an unrelated certificate sent, too",
    verdict: "ok",
    build: async () => {
      const chain = await three()();
      return { ...chain, sent: [await authority(await root()), ...chain.sent] };
    },
  },
  {
    name: "an intermediate in the file without its root",
    verdict: "ok",
    openSsl: "wants a root",
    build: async () => {
      const { leaf, sent } = await three()();
      return { leaf, sent: [], anchors: sent };
    },
  },
  {
    name: "a root that is in no file",
    verdict: "not trusted",
    build: async () => ({ ...(await three()()), anchors: [] }),
  },
  {
    name: "a root that is in no file, sent",
    verdict: "not trusted",
    build: async () => {
      const { leaf, sent, anchors } = await three()();
      return { leaf, sent: [...sent, ...anchors], anchors: [] };
    },
  },
  {
    name: "a root of the name with another key",
    verdict: "not trusted",
    build: async () => {
      const chain = await three()();
      const impostor = await make({ subject: chain.anchors[0]?.subject ?? "", ca: true });
      return { ...chain, anchors: [impostor] };
    },
  },
  {
    name: "an intermediate of the name with another key",
    verdict: "not trusted",
    build: async () => {
      const chain = await three()();
      return { ...chain, sent: [await authority(chain.anchors[0] as Made)] };
    },
  },
  {
    name: "a leaf that signs itself",
    verdict: "not trusted",
    build: async () => ({
      leaf: await make({ subject: LEAF, purposes: [CLIENT_AUTH] }),
      sent: [],
      anchors: [],
    }),
  },
];

const STRENGTH: readonly ChainCase[] = [
  ...(["RSA-2048", "P-384", "P-521", "Ed25519"] as const).map((key): ChainCase => ({
    name: `a leaf with ${key}`,
    verdict: "ok",
    build: three({ leaf: { key } }),
  })),
  { name: "a leaf with RSA-1024", verdict: "too weak", build: three({ leaf: { key: "RSA-1024" } }) },
  { name: "a leaf signed over SHA-1", verdict: "too weak", build: three({ leaf: { hash: "SHA-1" } }) },
  {
    name: "an intermediate with RSA-1024",
    verdict: "too weak",
    build: three({ authority: { key: "RSA-1024" } }),
  },
  {
    name: "an intermediate signed over SHA-1",
    verdict: "too weak",
    build: three({ authority: { hash: "SHA-1" } }),
  },
];

const PAST = [-30, -1] as const;
const FUTURE = [1, 30] as const;

/** A root that was renewed with its key; the file has both. */
function renewedRoot(order: (both: readonly Made[]) => readonly Made[]): () => Promise<Chain> {
  return async () => {
    const old = await root({ days: PAST });
    const renewed = await make({ subject: old.subject, ca: true, key: old });
    return { leaf: await client(renewed), sent: [], anchors: order([old, renewed]) };
  };
}

/** An intermediate that was renewed with its key; the client sends both. */
function renewedAuthority(order: (both: readonly Made[]) => readonly Made[]): () => Promise<Chain> {
  return async () => {
    const top = await root();
    const old = await authority(top, { days: PAST });
    const renewed = await authority(top, { key: old });
    return { leaf: await client(renewed), sent: order([old, renewed]), anchors: [top] };
  };
}

/** An intermediate of an expired root that another root has signed, too. */
function crossSigned(order: (both: readonly Made[]) => readonly Made[]): () => Promise<Chain> {
  return async () => {
    const [expired, other] = [await root({ days: PAST }), await root()];
    const first = await authority(expired);
    const second = await authority(other, { key: first });
    return { leaf: await client(first), sent: order([first, second]), anchors: [expired, other] };
  };
}

const reversed = (both: readonly Made[]): readonly Made[] => both.toReversed();

const TIMES: readonly ChainCase[] = [
  { name: "an expired leaf", verdict: "expired", build: three({ leaf: { days: PAST } }) },
  { name: "a leaf of the future", verdict: "not valid yet", build: three({ leaf: { days: FUTURE } }) },
  { name: "an expired intermediate", verdict: "expired", build: three({ authority: { days: PAST } }) },
  {
    name: "an intermediate of the future",
    verdict: "not valid yet",
    build: three({ authority: { days: FUTURE } }),
  },
  { name: "an expired root", verdict: "expired", build: three({ root: { days: PAST } }) },
  { name: "a renewed root behind the expired one", verdict: "ok", build: renewedRoot(same) },
  { name: "a renewed root before the expired one", verdict: "ok", build: renewedRoot(reversed) },
  { name: "a renewed intermediate behind the expired one", verdict: "ok", build: renewedAuthority(same) },
  { name: "a renewed intermediate before the expired one", verdict: "ok", build: renewedAuthority(reversed) },
  {
    name: "a second root behind the expired one",
    verdict: "ok",
    openSsl: "looks at one path",
    build: crossSigned(same),
  },
  { name: "a second root before the expired one", verdict: "ok", build: crossSigned(reversed) },
];

const PURPOSES: readonly ChainCase[] = [
  {
    name: "a leaf for both",
    verdict: "ok",
    build: three({ leaf: { purposes: [SERVER_AUTH, CLIENT_AUTH] } }),
  },
  {
    name: "a leaf for servers",
    verdict: "wrong purpose",
    build: three({ leaf: { purposes: [SERVER_AUTH] } }),
  },
  {
    name: "a leaf for anything",
    verdict: "wrong purpose",
    build: three({ leaf: { purposes: [ANY_PURPOSE] } }),
  },
  {
    name: "a leaf without a purpose",
    verdict: "wrong purpose",
    openSsl: "takes no purpose for any",
    build: async () => {
      const top = await root();
      return { leaf: await make({ subject: LEAF }, top), sent: [], anchors: [top] };
    },
  },
  {
    name: "a leaf that is an authority",
    verdict: "wrong purpose",
    openSsl: "lets authorities be clients",
    build: three({ leaf: { ca: true, keyUsage: null } }),
  },
  { name: "a leaf without key usage", verdict: "ok", build: three({ leaf: { keyUsage: null } }) },
  {
    name: "a leaf that agrees on keys",
    verdict: "ok",
    build: three({ leaf: { keyUsage: KeyUsageFlags.keyAgreement } }),
  },
  {
    name: "a leaf that only encrypts keys",
    verdict: "wrong purpose",
    build: three({ leaf: { keyUsage: KeyUsageFlags.keyEncipherment, key: "RSA-2048" } }),
  },
  {
    name: "an authority for clients",
    verdict: "ok",
    build: three({ authority: { purposes: [CLIENT_AUTH] } }),
  },
  {
    name: "an authority for both",
    verdict: "ok",
    build: three({ authority: { purposes: [SERVER_AUTH, CLIENT_AUTH] } }),
  },
  {
    name: "an authority for servers",
    verdict: "wrong purpose",
    build: three({ authority: { purposes: [SERVER_AUTH] } }),
  },
  {
    name: "an authority for anything",
    verdict: "wrong purpose",
    build: three({ authority: { purposes: [ANY_PURPOSE] } }),
  },
  {
    name: "a root for servers",
    verdict: "wrong purpose",
    build: three({ root: { purposes: [SERVER_AUTH] } }),
  },
];

const AUTHORITIES: readonly ChainCase[] = [
  {
    name: "an intermediate that is none",
    verdict: "not trusted",
    build: three({ authority: { ca: false } }),
  },
  {
    name: "an intermediate without basic constraints",
    verdict: "not trusted",
    build: three({ authority: { ca: null, keyUsage: KeyUsageFlags.keyCertSign } }),
  },
  {
    name: "an intermediate that may not sign certificates",
    verdict: "not trusted",
    build: three({ authority: { keyUsage: KeyUsageFlags.cRLSign } }),
  },
  { name: "a kept path length", verdict: "ok", build: three({ authority: { pathLength: 0 } }) },
  {
    name: "an exceeded path length",
    verdict: "not trusted",
    build: three({ root: { pathLength: 0 } }),
  },
  {
    name: "an authority's next key below a path length of 0",
    verdict: "ok",
    build: async () => {
      const top = await root();
      const old = await authority(top, { pathLength: 0 });
      const next = await authority(old);
      return { leaf: await client(next), sent: [next, old], anchors: [top] };
    },
  },
];

const EXTENSIONS: readonly ChainCase[] = [
  {
    name: "an unknown critical extension",
    verdict: "not trusted",
    build: three({ leaf: extension(OID, true) }),
  },
  {
    name: "an authority with an unknown critical extension",
    verdict: "not trusted",
    build: three({ authority: extension(OID, true) }),
  },
  { name: "an unknown extension", verdict: "ok", build: three({ leaf: extension(OID, false) }) },
  {
    name: "critical policies",
    verdict: "ok",
    build: three({ leaf: extension("2.5.29.32", true, POLICIES) }),
  },
  {
    name: "an authority with critical policies",
    verdict: "ok",
    build: three({ authority: extension("2.5.29.32", true, POLICIES) }),
  },
  {
    name: "an authority that inhibits any policy",
    verdict: "ok",
    build: three({ authority: extension("2.5.29.54", true, der(0x02, Buffer.of(0))) }),
  },
  {
    name: "an authority with policy constraints",
    verdict: "ok",
    build: three({ authority: extension("2.5.29.36", true, der(0x30, der(0x81, Buffer.of(0)))) }),
  },
];

export const CHAINS: readonly ChainCase[] = [
  ...SHAPES,
  ...STRENGTH,
  ...TIMES,
  ...PURPOSES,
  ...AUTHORITIES,
  ...EXTENSIONS,
  ...CONSTRAINED_CHAINS,
];

/**
 * Provenance of a release: an in-toto statement with a SLSA v1 predicate, in a DSSE envelope, signed by Ed25519. It needs
 * only Node, so that a bare clone verifies a release.
 */
import { createHash, createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Name of the file: one envelope, on one line. */
export const PROVENANCE = "provenance.intoto.jsonl";

const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE = "https://slsa.dev/provenance/v1";

/** @param {string | NodeJS.ArrayBufferView} content */
const sha256 = (content) => createHash("sha256").update(content);

/** What is signed (DSSE's pre-authentication encoding). @param {Buffer} payload */
function signedBytes(payload) {
  return Buffer.concat([
    Buffer.from(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${payload.length} `),
    payload,
  ]);
}

/** @param {import("node:crypto").KeyObject} key @throws {Error} if it is no Ed25519 key */
function digestOfKey(key) {
  if (key.asymmetricKeyType !== "ed25519") {
    throw new Error("the key must be an Ed25519 key in PEM");
  }
  return sha256(key.export({ type: "spki", format: "der" }));
}

/** @param {string} directory */
function subjectsOf(directory) {
  return readdirSync(directory)
    .filter((name) => name !== PROVENANCE)
    .sort()
    .map((name) => ({ name, digest: { sha256: sha256(readFileSync(join(directory, name))).digest("hex") } }));
}

/**
 * Returns the signed provenance of all files in a directory.
 *
 * @param {string} directory
 * @param {{ buildType: string, version: string, commit: string, npm: string, lockfile: string }} build
 * @param {string} pem the private key
 */
export function signProvenance(directory, { buildType, version, commit, npm, lockfile }, pem) {
  const key = createPrivateKey(pem);
  const publicKey = createPublicKey(key);
  const statement = {
    _type: STATEMENT_TYPE,
    subject: subjectsOf(directory),
    predicateType: PREDICATE_TYPE,
    predicate: {
      buildDefinition: {
        buildType,
        externalParameters: { version, commit },
        resolvedDependencies: [
          { name: "source", digest: { gitCommit: commit } },
          { name: "package-lock.json", digest: { sha256: sha256(lockfile).digest("hex") } },
        ],
      },
      runDetails: {
        // The holder of the key is the builder. Its name is the key's digest (RFC 6920).
        builder: {
          id: `ni:///sha-256;${digestOfKey(publicKey).digest("base64url")}`,
          version: { node: process.versions.node, npm },
        },
      },
    },
  };
  const payload = Buffer.from(JSON.stringify(statement));
  const envelope = {
    payloadType: PAYLOAD_TYPE,
    payload: payload.toString("base64"),
    signatures: [
      {
        keyid: digestOfKey(publicKey).digest("hex"),
        sig: sign(null, signedBytes(payload), key).toString("base64"),
      },
    ],
  };
  return `${JSON.stringify(envelope)}\n`;
}

/**
 * Verifies the provenance of a directory, and that it names exactly the files there.
 *
 * @param {string} directory
 * @param {string} pem the public key
 * @returns {{ subjects: number, version: string, commit: string }}
 * @throws {Error} with every difference
 */
export function verifyRelease(directory, pem) {
  const key = createPublicKey(pem);
  digestOfKey(key);
  const envelope = JSON.parse(readFileSync(join(directory, PROVENANCE), "utf8"));
  const payload = Buffer.from(envelope.payload, "base64");
  /** @type {{ sig: string }[]} */
  const signatures = envelope.signatures;
  const signed = signatures.some(({ sig }) =>
    verify(null, signedBytes(payload), key, Buffer.from(sig, "base64")),
  );
  if (envelope.payloadType !== PAYLOAD_TYPE || !signed) {
    throw new Error(`${PROVENANCE} is not signed by this key`);
  }
  const statement = JSON.parse(payload.toString());
  if (statement["_type"] !== STATEMENT_TYPE || statement.predicateType !== PREDICATE_TYPE) {
    throw new Error(`${PROVENANCE} is no SLSA v1 provenance`);
  }
  /** @type {ReturnType<typeof subjectsOf>} */
  const subjects = statement.subject;
  const expected = new Map(subjects.map(({ name, digest }) => [name, digest.sha256]));
  const found = new Map(subjectsOf(directory).map(({ name, digest }) => [name, digest.sha256]));
  const problems = [...new Set([...expected.keys(), ...found.keys()])].flatMap((name) =>
    expected.get(name) === found.get(name)
      ? []
      : [
          `${name} ${found.has(name) ? (expected.has(name) ? "was changed" : "is not part of the release") : "is missing"}`,
        ],
  );
  if (problems.length > 0) {
    throw new Error(problems.join("\n"));
  }
  const { version, commit } = statement.predicate.buildDefinition.externalParameters;
  return { subjects: subjects.length, version, commit };
}

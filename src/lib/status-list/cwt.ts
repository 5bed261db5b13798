/** Status list tokens as CWTs: COSE_Sign1 (RFC 9052) with the claims of draft-ietf-oauth-status-list section 5.2. */
import { type Cbor, decodeCbor, encodeCbor } from "./cbor.ts";

export const STATUS_LIST_CWT = "application/statuslist+cwt";

/** COSE algorithms by the names that key sets use (RFC 9053, RFC 8812, RFC 9864). */
const ALGORITHMS = { ES256: -7, RS256: -257, Ed25519: -19 } as const;

/** COSE header parameters and CWT claims. */
const [ALG, KID, TYP] = [1, 4, 16];
const CLAIMS = [
  [1, "iss"],
  [2, "sub"],
  [4, "exp"],
  [6, "iat"],
  [65_533, "status_list"],
  [65_534, "ttl"],
] as const;
/** First byte of a tagged COSE_Sign1: tag 18. */
const SIGN1_TAG = 0xd2;

/** The claims. Times are in seconds of Unix time; `lst` is the compressed list. */
export interface StatusListCwt {
  readonly iss: string;
  readonly sub: string;
  readonly exp: number;
  readonly iat: number;
  readonly ttl: number;
  readonly status_list: { readonly bits: number; readonly lst: Uint8Array };
}

function signedBytes(header: Uint8Array, payload: Uint8Array): Buffer {
  return encodeCbor(["Signature1", header, Buffer.alloc(0), payload]);
}

/** Signs a list. @param sign returns the signature of the bytes, as JWS has it */
export async function signCwt(
  { status_list: { bits, lst }, ...claims }: StatusListCwt,
  { alg, kid }: { readonly alg: keyof typeof ALGORITHMS; readonly kid: string },
  sign: (bytes: Buffer) => Promise<Buffer>,
): Promise<Buffer> {
  const list = new Map<Cbor, Cbor>([
    ["lst", lst],
    ["bits", bits],
  ]);
  const members = CLAIMS.map(([key, name]) => [key, name === "status_list" ? list : claims[name]] as const);
  const payload = encodeCbor(new Map<Cbor, Cbor>(members));
  const header = encodeCbor(
    new Map<Cbor, Cbor>([
      [ALG, ALGORITHMS[alg]],
      [KID, Buffer.from(kid)],
      [TYP, STATUS_LIST_CWT],
    ]),
  );
  const signature = await sign(signedBytes(header, payload));
  return Buffer.concat([Buffer.from([SIGN1_TAG]), encodeCbor([header, new Map(), payload, signature])]);
}

/** A list whose signature is not verified yet. */
export interface ReadCwt {
  readonly kid: unknown;
  /** As in a key set; undefined for an unknown one. */
  readonly alg: string | undefined;
  readonly typ: unknown;
  readonly signed: Buffer;
  readonly signature: Buffer;
  readonly claims: () => Readonly<Record<string, unknown>>;
}

function mapOf(bytes: unknown): ReadonlyMap<unknown, unknown> {
  const value = Buffer.isBuffer(bytes) ? decodeCbor(bytes) : undefined;
  if (!(value instanceof Map)) {
    throw new TypeError("the CWT has another structure");
  }
  return value;
}

/** Takes a CWT apart. @throws TypeError if it is malformed */
export function readCwt(bytes: Buffer): ReadCwt {
  const message = decodeCbor(bytes[0] === SIGN1_TAG ? bytes.subarray(1) : bytes);
  const [header, , payload, signature, ...others] = Array.isArray(message) ? (message as unknown[]) : [];
  const parameters = mapOf(header);
  if (!Buffer.isBuffer(payload) || !Buffer.isBuffer(signature) || others.length > 0) {
    throw new TypeError("the CWT has another structure");
  }
  const [kid, alg] = [parameters.get(KID), parameters.get(ALG)];
  return {
    kid: Buffer.isBuffer(kid) ? kid.toString() : undefined,
    alg: Object.entries(ALGORITHMS).find(([, number]) => number === alg)?.[0],
    typ: parameters.get(TYP),
    signed: signedBytes(header as Buffer, payload),
    signature,
    claims: () => {
      const claims = mapOf(payload);
      const list = claims.get(65_533);
      const members = list instanceof Map ? { bits: list.get("bits"), lst: list.get("lst") } : undefined;
      return Object.fromEntries(
        CLAIMS.map(([key, name]) => [name, name === "status_list" ? members : claims.get(key)]),
      );
    },
  };
}

/** The check of `signet doctor` on each hub that an edge follows (decision 33). */
import { randomBytes } from "node:crypto";
import type { Config } from "#config/config.ts";
import type { Logger } from "#observability/logger.ts";
import { type OpenHubConnection, readReply, type Reply } from "#revocation/hub-messages.ts";
import { createHubOpener } from "#revocation/hub-socket.ts";
import { rootOf } from "#revocation/nonce-tree.ts";
import { type CheckCode, createCodeCheck, leaseStatement, NONCE_BYTES } from "#revocation/proof.ts";
import { afterLoopTime } from "#runtime/loop-time.ts";
import { failureOf, messageOf } from "#runtime/thrown.ts";
import { hubTls, openHubFiles } from "../certificate-files.ts";
import type { Finding } from "./checks.ts";
import { examineFiles } from "./files.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** How long a hub may take for a proof, in the loop's time. */
const PROOF_MS = 3_000;

type Proof = Extract<Reply, { type: "proof" }>;

interface HubCheck {
  readonly open: OpenHubConnection;
  readonly checkCode: CheckCode;
}

/** What to fix if a connection fails, by a part of the error's code or message; the first that fits. */
const FIXES: readonly (readonly [RegExp, string])[] = [
  [/none of the names/, "add its name there if this is the hub, else correct SIGNET_HUBS"],
  [/response: 403/, "the hub does not permit this certificate: add its name to SIGNET_HUB_NAMES of the hub"],
  [/response: /, "another server listens there: correct SIGNET_HUBS"],
  [
    /ERR_SSL_.*ALERT|ECONNRESET|EPIPE|socket hang up/,
    "the hub does not accept this certificate: check SIGNET_HUB_CERT_FILE, and SIGNET_HUB_CA_FILE of the hub",
  ],
  [/ERR_SSL_|EPROTO/, "the server there speaks no TLS: check SIGNET_HUBS, and the hub's certificate"],
  [/CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/, "renew the hub's certificate, and check the clocks"],
  [
    /SELF_SIGNED|UNABLE_TO_|CERT_|ERR_TLS_/,
    "the hub's certificate does not chain to SIGNET_HUB_CA_FILE: use the CA that issued it",
  ],
];
const UNREACHABLE = "check SIGNET_HUBS, that the hub runs, SIGNET_HUB_LISTEN of the hub, and the network";

function fixOf(error: unknown): string {
  const { code = "" } = error as { readonly code?: string };
  const said = `${code} ${messageOf(error)}`;
  return FIXES.find(([pattern]) => pattern.test(said))?.[1] ?? UNREACHABLE;
}

/** Asks a hub for one proof. Rejects if it cannot be reached. */
async function askForProof(
  hub: string,
  nonce: Buffer,
  open: OpenHubConnection,
): Promise<Proof | "closed" | "silent"> {
  const text = nonce.toString("base64url");
  const { promise, resolve } = Promise.withResolvers<Proof | "closed" | "silent">();
  const connection = await open(hub, {
    onMessage: (message) => {
      const reply = readReply(message);
      if (reply?.type === "proof" && reply.nonce === text) {
        resolve(reply);
      }
    },
    onClose: () => resolve("closed"),
  });
  const cancel = afterLoopTime(machineTimers, PROOF_MS, () => resolve("silent"));
  connection.send(JSON.stringify({ type: "nonce", nonce: text }));
  try {
    return await promise;
  } finally {
    cancel();
    connection.close();
  }
}

/** Checks that a hub can be reached, and that its proof has a code of the edge's key. */
async function examineHub(hub: string, { open, checkCode }: HubCheck): Promise<Finding> {
  const finding = (ok: boolean, detail: string): Finding => ({
    check: "hub",
    ok,
    detail: `${hub}: ${detail}`,
  });
  const nonce = randomBytes(NONCE_BYTES);
  let proof: Awaited<ReturnType<typeof askForProof>>;
  const startedAt = machineTimers.monotonic();
  try {
    proof = await askForProof(hub, nonce, open);
  } catch (error) {
    return finding(false, `${failureOf(error)}: ${fixOf(error)}`);
  }
  if (proof === "closed") {
    return finding(
      false,
      "it ended the connection: check that this edge's certificate is not revoked, and that the hub has fewer than 2,000 connections",
    );
  }
  if (proof === "silent") {
    return finding(
      false,
      "reachable, but it brings no proof: check `/readyz` of the hub, and what it follows",
    );
  }
  const root = rootOf(nonce, proof.trees);
  if (root === undefined || !checkCode(leaseStatement(proof, root.toString("hex")), proof.codes)) {
    return finding(
      false,
      "its proof has no code of SIGNET_LEASE_KEY: run `signet migrate` with the same key, or give this edge the key of that database",
    );
  }
  const tookMs = Math.round(machineTimers.monotonic() - startedAt);
  return finding(
    true,
    `its proof of ${proof.sequence} revocations verifies, ${tookMs} ms after this edge began to connect`,
  );
}

/** Checks each hub in the settings. */
export async function examineHubs(
  config: Config & { readonly hubs: readonly string[] },
  log: Logger,
): Promise<Finding[]> {
  const files = await openHubFiles(config, log);
  try {
    const open = createHubOpener(() => hubTls(config, files));
    const checkCode = createCodeCheck(config.leaseKeys ?? []);
    const hubs = config.hubs.map(async (hub) => await examineHub(hub, { open, checkCode }));
    return [...(await Promise.all(hubs)), ...(await examineFiles(config))];
  } finally {
    files?.close();
  }
}

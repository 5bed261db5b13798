/** Judges presented certificates under the authorities that are trusted now. */
import type { X509Certificate } from "node:crypto";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock } from "#domain/clock.ts";
import {
  type CertificateProblem,
  findPaths,
  leafProblem,
  pathProblem,
  timeProblem,
} from "./certificate-chain.ts";
import { type ClientCertificate, describeCertificate } from "./client-certificate.ts";
import type { TrustAnchors } from "./trust.ts";

/** Maximum number of remembered verdicts. A verdict costs several signature checks. */
const REMEMBERED_MAX = 1_000;

/** Certificates that a peer or a proxy presented, not verified. */
export interface Presented {
  readonly leaf: X509Certificate;
  readonly intermediates: readonly X509Certificate[];
  /** Equal keys mean equal certificates. */
  readonly key: string;
}

/** A verified certificate, or why there is none. */
export type FoundCertificate = ClientCertificate | CertificateProblem;

/** Judges certificates at this moment; returns "missing" for none. */
export type CertificateJudge = (presented: Presented | undefined) => FoundCertificate;

/** What was found under certain anchors. The clock chooses among the paths. */
interface Verdict {
  readonly anchors: TrustAnchors;
  readonly paths: readonly ClientCertificate[];
  /** Why there is no path. */
  readonly problem: CertificateProblem;
}

function examine({ leaf, intermediates }: Presented, anchors: TrustAnchors): Verdict {
  const own = leafProblem(leaf);
  if (own !== undefined) {
    return { anchors, paths: [], problem: own };
  }
  const found = findPaths({ leaf, intermediates, anchors: anchors.certificates }).map((issuers) => ({
    issuers,
    problem: pathProblem(leaf, issuers),
  }));
  const paths = found
    .filter(({ problem }) => problem === undefined)
    .map(({ issuers }) => describeCertificate(leaf, issuers));
  return { anchors, paths, problem: found[0]?.problem ?? "not trusted" };
}

/** Prefers a path that is valid now, so a renewed authority works beside its expired certificate. */
function chooseAt({ paths, problem }: Verdict, nowMs: number): FoundCertificate {
  const [first] = paths;
  return (
    paths.find((path) => timeProblem(path, nowMs) === undefined) ??
    (first === undefined ? problem : (timeProblem(first, nowMs) ?? problem))
  );
}

/**
 * Creates a judge. A verdict counts only under the anchors that it was made under, so it ends with the trust in an
 * authority, on open connections too.
 *
 * @param anchors returns the trusted authorities: the same object until they change, undefined for none
 */
export function createCertificateJudge(
  anchors: () => TrustAnchors | undefined,
  clock: Clock,
): CertificateJudge {
  /** By what was presented once on a connection, which keeps the verdict as long as it lives. */
  const kept = new WeakMap<Presented, Verdict>();
  const remembered = new Map<string, Verdict>();

  function verdictOf(presented: Presented, current: TrustAnchors): Verdict {
    const own = kept.get(presented);
    if (own?.anchors === current) {
      return own;
    }
    const { key } = presented;
    const known = remembered.get(key);
    const verdict = known?.anchors === current ? known : examine(presented, current);
    putBounded(remembered, key, verdict, REMEMBERED_MAX);
    kept.set(presented, verdict);
    return verdict;
  }

  return (presented) => {
    if (presented === undefined) {
      return "missing";
    }
    const current = anchors();
    return current === undefined ? "not trusted" : chooseAt(verdictOf(presented, current), clock.now());
  };
}

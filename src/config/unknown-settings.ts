/** Finds variables that look like settings but are none: mistyped ones would silently leave a default in force. */

type Variables = Readonly<Record<string, string | undefined>>;

/** Variables with the prefix that other programs of this repository read: Compose, the tests, the tutorials. */
const OTHERS: ReadonlySet<string> = new Set([
  "SIGNET_CREDENTIAL_FILE",
  "SIGNET_DATABASE_PASSWORD",
  "SIGNET_EDGE_DATABASE_PASSWORD",
  "SIGNET_RECORD_HISTORIES",
  "SIGNET_URL",
]);
const OTHERS_BY_PREFIX = /^SIGNET_(TEST|INIT)_/;
/** Kubernetes describes the services of a namespace, which may be called signet-api, in every pod. */
const OF_KUBERNETES =
  /_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;
const ADDRESS_OF_KUBERNETES = /^(tcp|udp|sctp):\/\//;

/** Former settings, with what to do instead. */
const FORMER: Readonly<Record<string, string>> = {
  SIGNET_DELIVERY_STARTS_PER_SECOND: "was replaced by SIGNET_DELIVERY_CLAIMS_PER_SECOND",
  SIGNET_TEMPORAL_CODEC: "was removed: unset it (docs/operations.md, Upgrade)",
  SIGNET_WORKFLOW_STACK_TRACES: "was removed: unset it",
};

/** Returns how many letters must be changed, added, left out or swapped with their neighbours to get the other text. */
function distance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_value, index) => index)];
  for (let i = 1; i <= from.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const at = (up: number, left: number): number => rows[i - up]?.[j - left] ?? 0;
      const same = from[i - 1] === to[j - 1];
      const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      row.push(
        Math.min(
          at(1, 0) + 1,
          (row[j - 1] ?? 0) + 1,
          at(1, 1) + (same ? 0 : 1),
          swapped ? at(2, 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    rows.push(row);
  }
  return rows[from.length]?.[to.length] ?? 0;
}

/** A likely mistake: at most 3 letters, and at most a quarter of the name. */
function meant(variable: string, known: readonly string[]): string | undefined {
  const most = Math.min(3, Math.floor((variable.length - "SIGNET_".length) / 4));
  const [nearest] = known
    .map((name) => ({ name, far: distance(variable, name) }))
    .toSorted((a, b) => a.far - b.far);
  return nearest !== undefined && nearest.far <= most ? nearest.name : undefined;
}

function isOther(variable: string, value: string): boolean {
  return (
    OTHERS.has(variable) ||
    OTHERS_BY_PREFIX.test(variable) ||
    OF_KUBERNETES.test(variable) ||
    (variable.endsWith("_PORT") && ADDRESS_OF_KUBERNETES.test(value))
  );
}

/** Returns a warning for each variable with the prefix `SIGNET_` that is no setting. @param known names of all settings */
export function unknownSettings(environment: Variables, known: readonly string[]): string[] {
  const names = new Set(known);
  return (
    Object.entries(environment)
      // As everywhere, an empty value is none.
      .filter(([name, value = ""]) => name.startsWith("SIGNET_") && value !== "" && !isOther(name, value))
      .filter(([name]) => !names.has(name))
      .map(([name]) => {
        const nearest = meant(name, known);
        return `${name} ${FORMER[name] ?? (nearest === undefined ? "is not a setting" : `is not a setting: did you mean ${nearest}?`)}`;
      })
  );
}

/**
 * Like {@link unknownSettings}, for the command line: beside it, other programs may have variables with the prefix, so only
 * likely mistakes are warnings.
 */
export function mistypedSettings(environment: Variables, known: readonly string[]): string[] {
  return unknownSettings(environment, known).filter((problem) => problem.includes("did you mean"));
}

/** Every statement that the program sends to PostgreSQL, with the roles that it may run as. */
import type { ServiceRole } from "#database/pool.ts";
import { type CallExpression, is, nameAround, type Node, Program, ROOT } from "./program.ts";
import { Roles } from "./roles.ts";
import { Texts } from "./texts.ts";

export interface FoundStatement {
  /** File, line and function. */
  readonly place: string;
  readonly roles: readonly ServiceRole[];
  readonly texts: readonly string[];
  /** Parts whose text is not found. */
  readonly unknown: readonly string[];
}

/** Files whose statements no role of a pool runs, or which need no right, and why. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "src/database/abandoned-backends.ts": "reads the system's catalogues",
  "src/database/access.ts": "asks about the login itself, in the system's catalogues",
  "src/database/apply-migrations.ts": "the owner of the schema migrates",
  "src/database/listener.ts": "LISTEN needs no right",
  "src/database/migrate.ts": "the owner of the schema migrates",
  "src/database/pool.ts": "sends what others have composed",
  "src/database/readiness.ts": "transactions and settings need no right",
  "src/database/row-security.ts": "reads the system's catalogues",
  "src/database/server-checks.ts": "reads the system's catalogues",
  "src/database/subscription.ts": "settings need no right",
  "src/database/transaction.ts": "transactions and settings need no right",
  "src/database/repositories/tokens/lease-keys.ts": "`signet migrate` sets the keys as the owner",
  "src/processes/embedded/postgres.ts": "the administrator creates the database",
  "src/tools/row-types.ts": "the generator reads the catalogue as the owner",
  "src/webhooks/engine/letter-reconciler.ts": "asks a workflow, not the database",
  "src/webhooks/engine/reconciler.ts": "asks a workflow, not the database",
};

/**
 * Roles of functions whose connection passes through an interface, where it is not followed, or through one that two
 * processes share. They replace what is found.
 */
const DECLARED: Readonly<Partial<Record<ServiceRole, string>>> = {
  signet_api: `addSubject countRemovedSubjects countStreams countWaitingBefore deleteStream findEventFacts findReplayJob
    freeAnswer insertStream listReplayItems listReplayJobs listStreams lockStream readLagOf removeSubject saveStream
    takeVerification countOutcomes publish`,
  signet_operator: `countLiveTokens findKnownTenants findOperatorToken findSigningKey freeAnswer insertOperator
    insertOperatorToken insertPrincipal insertRole insertTenant lockPortalBrand lockRole publish reprovisionPrincipal
    revokeOperator revokeOperatorToken setPortalBrand setTenantLimits updateOperator updateRoleScopes countUncounted
    oldestDayOverdueMs`,
  signet_issuer: "listLiveKeys publish",
  signet_worker: `countTiles countUncarriedLetters countUncounted findAnyDataKey findCarriersOfLetters findDueMoves
    findDueRotations findKnownTenants findLettersOf findOverdue findRestore insertCheckpoint insertTile lettersOfCarriers listLiveKeys
    loadCurrentSecret publish readCensus readHead readLag readTableHealth takeFromCarrier countOutcomes oldestDayOverdueMs`,
  signet_rotator: `endReplaced endRescues eraseSuccessors retireVersions setEndIndexes setNextAlerts takeDeliveries takeDue takeEnded
    takeOverdue`,
  signet_audit: "readEntriesFrom",
  signet_cell: "appendCellEntries cellLogSize readHomeEnds readHomeRevocations",
  signet_edge: `acknowledge listPublicKeys loseFollowers markFollowerSeen proveRevocations readAllRevocations readInParts
    readRevocationNews readRevocationSnapshot registerFollower removeFollower reportFollowers
    withoutWaiting writeFollower`,
};

function declaredRoles(name: string): ServiceRole[] {
  return (Object.entries(DECLARED) as [ServiceRole, string][]).flatMap(([role, names]) =>
    names.split(/\s+/u).includes(name) ? [role] : [],
  );
}

/** Returns the connection of a call that sends a statement, and where in its arguments the statement is. */
function sending(call: CallExpression): { readonly connection: Node; readonly at: number } | undefined {
  const callee = call.expression;
  if (
    ["copyOut", "queryInOrder", "queryInTurn"].includes(callee.getText()) &&
    call.arguments[0] !== undefined
  ) {
    return { connection: call.arguments[0], at: 1 };
  }
  const sends = is.isPropertyAccessExpression(callee) && callee.name.text === "query";
  return sends && nameAround(call) !== "copyOut" ? { connection: callee.expression, at: 0 } : undefined;
}

/** Reads the sources below src and activities. Takes half a minute. */
export function findStatements(): readonly FoundStatement[] {
  const program = new Program();
  try {
    const [texts, roles] = [new Texts(program), new Roles(program)];
    return program.calls.flatMap((call) => {
      const sent = sending(call);
      if (sent === undefined || call.getSourceFile().fileName.slice(ROOT.length + 1) in ELSEWHERE) {
        return [];
      }
      const { texts: composed, unknown } = texts.of(call, sent.at);
      const declared = declaredRoles(nameAround(call));
      return {
        place: program.placeOf(call),
        roles: declared.length > 0 ? declared : [...roles.of(sent.connection)],
        texts: composed,
        unknown: unknown.map((node) => node.getText()),
      };
    });
  } finally {
    program.close();
  }
}

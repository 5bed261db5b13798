/** Settings of Temporal's Worker Versioning: which version of the workers runs which workflows. */
import { VERSION } from "#runtime/package.ts";
import { type Parser, setting } from "./setting.ts";

const name: Parser<string> = (value) => {
  // Temporal separates the two by "." or ":".
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(value)) {
    throw new Error('must be at most 100 letters, digits, "_" and "-"');
  }
  return value;
};

const buildId: Parser<string> = (value) => {
  if (!/^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$/.test(value)) {
    throw new Error('must be at most 200 letters, digits, ".", "_", "+" and "-"');
  }
  return value;
};

export const WORKER_VERSIONING_SETTINGS = {
  workerDeployment: setting(
    "SIGNET_WORKER_DEPLOYMENT",
    name,
    undefined,
    "name of the Worker Deployment in Temporal; turns Worker Versioning on (docs/operations.md)",
  ),
  workerBuildId: setting(
    "SIGNET_WORKER_BUILD_ID",
    buildId,
    undefined,
    "version of the worker in that deployment, such as the image's tag; default: Signet's version",
  ),
} as const;

interface WorkerVersioningValues {
  readonly workerDeployment?: string | undefined;
  readonly workerBuildId?: string | undefined;
}

/** The version of a worker in its deployment. */
export interface WorkerVersion {
  readonly deploymentName: string;
  readonly buildId: string;
}

/** Returns a problem if a version is set without a deployment. */
export function workerVersioningProblems(values: WorkerVersioningValues): string[] {
  return values.workerBuildId !== undefined && values.workerDeployment === undefined
    ? ["SIGNET_WORKER_BUILD_ID needs SIGNET_WORKER_DEPLOYMENT"]
    : [];
}

/** Returns the worker's version; undefined if Worker Versioning is off. */
export function workerVersion({
  workerDeployment,
  workerBuildId,
}: WorkerVersioningValues): WorkerVersion | undefined {
  return workerDeployment === undefined
    ? undefined
    : { deploymentName: workerDeployment, buildId: workerBuildId ?? VERSION };
}

/** The check of `signet doctor` on the files in the settings: a process keeps its previous ones while new ones are unusable. */
import { type Config, processEnvironment } from "#config/config.ts";
import { readRouteFile } from "#edge/route-file.ts";
import { readMaterial } from "#http/mutual-tls/material.ts";
import { messageOf } from "#runtime/thrown.ts";
import { apiFiles, clientFiles, hubFiles, operatorFiles } from "../certificate-files.ts";
import type { Finding } from "./checks.ts";

/** Reads each set of files as the processes do. @returns no finding without files */
export async function examineFiles(config: Config): Promise<Finding[]> {
  const sets = [clientFiles, operatorFiles, hubFiles, apiFiles].flatMap((of) => of(config) ?? []);
  const reads: (() => unknown)[] = sets.map((files) => async () => await readMaterial(files));
  const { edgeRoutes, edgeChecks } = config;
  if (edgeRoutes !== undefined) {
    const environment = processEnvironment();
    const sources = { environment: (name: string) => environment[name], checksOnly: edgeChecks !== "off" };
    reads.push(() => readRouteFile(edgeRoutes, sources));
  }
  const problems: string[] = [];
  for (const read of reads) {
    try {
      await read();
    } catch (error) {
      problems.push(messageOf(error));
    }
  }
  if (reads.length === 0) {
    return [];
  }
  const detail =
    problems.length === 0
      ? "keys, certificates, authorities and routes in the settings are usable"
      : `${problems.join("; ")}: correct the files; running processes keep the previous ones and read these within seconds`;
  return [{ check: "files", ok: problems.length === 0, detail }];
}

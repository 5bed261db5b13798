/** Fetches into the cache what tests would build on first use, or be skipped without. .ci/programs runs it. */
import { goProgram, HELM } from "#tools/go-program.ts";
import { fetchAwsServers } from "./aws-server.ts";
import { CACHE } from "./cache.ts";
import { fetchEnvoy } from "./envoy.ts";
import { fetchKubernetes } from "./kubernetes-programs.ts";

const PROGRAMS: Readonly<Record<string, () => Promise<unknown>>> = {
  Envoy: fetchEnvoy,
  Helm: async () => await goProgram(HELM),
  "Kubernetes' API server": async () => await fetchKubernetes(CACHE, (line) => console.warn(line)),
  "servers for AWS": fetchAwsServers,
};

for (const [name, fetchProgram] of Object.entries(PROGRAMS)) {
  await fetchProgram().catch((error: Error) => {
    console.warn(`${name} cannot be fetched: ${error.message.trim().split("\n").at(-1)}`);
  });
}

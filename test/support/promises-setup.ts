/** Once per run, for test/promises: one deployment for all its files, each of which creates its own tenants. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { type Deployment, startDeployment } from "./deployed-service.ts";
import { setup as setupServers } from "./global-setup.ts";
import { takeNamespace } from "./temporal-namespaces.ts";
import { copyTemplate } from "./test-database.ts";

declare module "vitest" {
  interface ProvidedContext {
    deployment: Deployment;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stopServers = await setupServers(project);
  const run = project.getProvidedContext();
  const directory = join(run.runDirectory, "deployment");
  await mkdir(directory);
  const deployment = await startDeployment({
    image: run.productionImage,
    directory,
    database: await copyTemplate(run.databaseUrl),
    temporal: { address: run.temporalAddress, namespace: await takeNamespace(run) },
    edges: 2,
  });
  // Only data can be provided.
  project.provide("deployment", JSON.parse(JSON.stringify(deployment)) as Deployment);
  return async () => {
    await deployment.close();
    await stopServers();
  };
}

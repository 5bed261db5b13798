/** Only the installation; test/e2e/bootstrap.test.ts has the rest, which starts dozens of processes. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { type BootstrapProject, createBootstrapProject } from "../support/bootstrap-project.ts";

let project: BootstrapProject;

beforeEach(async () => {
  project = await createBootstrapProject({ realEsbuild: false });
});
afterEach(async () => await project.remove());

it("a command installs the dependencies first, and again only when the lockfile has changed", async () => {
  const first = await project.signet("tenant", "list", "--json");
  expect(JSON.parse(first.stdout)).toMatchObject({ args: ["tenant", "list", "--json"] });
  expect(first.stderr).toContain("signet: installing dependencies");
  expect((await project.signet("version")).stderr).toBe("");
  expect(await project.npmCalls()).toEqual([expect.stringMatching(/^ci --include=dev /)]);
  await project.lock("1.0.1");
  await project.signet("version");
  expect(await project.npmCalls()).toHaveLength(2);
});

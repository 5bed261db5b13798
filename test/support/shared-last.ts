/** The order of test files: those that share services come last, so that the services are not idle beside others. */
import { readFileSync } from "node:fs";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Calls that share a service, by the order of their files. */
const SHARING = ["useSharedWorld()", "useSharedApi({ worker: true })", "useSharedApi()"];

function rankOf({ moduleId }: TestSpecification): number {
  const text = readFileSync(moduleId, "utf8");
  return SHARING.findIndex((call) => text.includes(call));
}

export class SharedLast extends BaseSequencer {
  /** Sorts like vitest, but by rank within each project. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const ranks = new Map(sorted.map((file) => [file, rankOf(file)]));
    const rank = (file: TestSpecification): number => ranks.get(file) ?? 0;
    const projects = [...new Set(sorted.map(({ project }) => project))];
    return projects.flatMap((of) =>
      sorted.filter(({ project }) => project === of).toSorted((one, other) => rank(one) - rank(other)),
    );
  }
}

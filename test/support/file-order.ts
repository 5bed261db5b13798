/** Order of the test files of a run: if the long ones came last, cores would idle while they end. */
import { readFileSync } from "node:fs";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { FACTOR } from "./properties.ts";

/** Returns the items of the first list in turns with those of the second one, and then what is left. */
export function inTurns<Item>(first: readonly Item[], second: readonly Item[]): Item[] {
  const turns = Math.max(first.length, second.length);
  return Array.from({ length: turns }, (_, turn) => [first[turn], second[turn]])
    .flat()
    .filter((item) => item !== undefined);
}

/** Whether the file says that it needs long (test/support/limits.ts), or tries many cases (test/support/properties.ts). */
function needsLong({ moduleId }: TestSpecification): boolean {
  const source = readFileSync(moduleId, "utf8");
  return source.includes("allowMinutes(") || (FACTOR > 1 && source.includes("cases("));
}

/** Lets each project begin with its long files, in turns with short ones, because many of them start processes. */
export class LongAmongFirst extends BaseSequencer {
  override async sort(specifications: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(specifications);
    const ofProjects = Map.groupBy(sorted, ({ project }) => project.name);
    return [...ofProjects.values()].flatMap((files) => {
      const long = files.filter(needsLong);
      return inTurns(
        long,
        files.filter((file) => !long.includes(file)),
      );
    });
  }
}

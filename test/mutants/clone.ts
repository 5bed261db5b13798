/** Faults in how a clone runs its sources. */
import type { Mutant } from "./mutant.ts";

export const CLONE: readonly Mutant[] = [
  {
    name: "bundle-of-other-imports",
    breaks: "A clone runs its current sources (decision 34)",
    file: "src/bootstrap.mjs",
    find: "BUNDLER, TSCONFIG, MANIFEST].map(",
    replace: "BUNDLER, TSCONFIG].map(",
    caughtBy: "test/e2e/bootstrap.test.ts",
  },
  {
    name: "version-of-dist",
    breaks: "A process knows the version of its package",
    file: "src/runtime/package.ts",
    find: "return manifest.name !== undefined || above === directory",
    replace: "return manifest.name === undefined || above === directory",
    caughtBy: "test/e2e/build.test.ts",
  },
];

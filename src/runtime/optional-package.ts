/** Packages that few deployments need. They are not installed with Signet, and loaded only where a setting needs them. */

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
}

/**
 * Loads such a package.
 *
 * @param wanted its name and major version, as `npm install` takes them
 * @param load `import()` of it
 * @throws Error that says how to install it, if it is missing
 */
export async function optionalPackage<T>(wanted: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    throw isMissing(error)
      ? new Error(`a package is missing: run \`npm install ${wanted}\` beside Signet`, { cause: error })
      : error;
  }
}

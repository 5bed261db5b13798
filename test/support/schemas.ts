/** Validates against the schema under test/schemas. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";

export type Check = (value: unknown) => readonly string[];

/** Returns a check for compose files. Compose itself checks formats. */
export async function composeCheck(): Promise<Check> {
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
  const path = join(import.meta.dirname, "..", "schemas", "compose-spec.json");
  const validate = ajv.compile(JSON.parse(await readFile(path, "utf8")) as object);
  return (value) =>
    validate(value)
      ? []
      : (validate.errors ?? []).map(
          ({ instancePath, message = "", params }) => `${instancePath}: ${message} ${JSON.stringify(params)}`,
        );
}

/** Validates against the schemas under test/schemas. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { SOURCES } from "../schemas/derive.ts";

export type Check = (value: unknown) => readonly string[];

interface Definitions {
  readonly definitions: Readonly<
    Record<string, { readonly properties?: { readonly kind?: { readonly const?: string } } }>
  >;
}

async function load(file: string): Promise<object> {
  return JSON.parse(await readFile(join(import.meta.dirname, "..", "schemas", file), "utf8")) as object;
}

/** Formats are specific to Kubernetes and compose, whose programs check them. */
const newAjv = (): Ajv2020 => new Ajv2020({ strict: false, allErrors: true, validateFormats: false });

function checkWith(ajv: Ajv2020, reference: string): Check {
  return (value) => {
    const validate = ajv.getSchema(reference);
    if (validate === undefined) {
      return [`no schema for ${reference}`];
    }
    return validate(value) === true
      ? []
      : (validate.errors ?? []).map(
          ({ instancePath, message = "", params }) => `${instancePath}: ${message} ${JSON.stringify(params)}`,
        );
  };
}

/** Returns a check for compose files. */
export async function composeCheck(): Promise<Check> {
  const ajv = newAjv();
  ajv.addSchema(await load("compose-spec.json"), "compose");
  return checkWith(ajv, "compose");
}

/** Returns the schemas of Kubernetes' kinds and of the custom resources in use, each complete. */
async function kindSchemas(): Promise<ReadonlyMap<string, object>> {
  const files = SOURCES.map(({ file }) => file).filter((file) => file !== "compose-spec.json");
  const schemas = await Promise.all(files.map(async (file) => (await load(file)) as Definitions));
  return new Map(
    schemas.flatMap(({ definitions }) =>
      Object.entries(definitions).flatMap(([name, { properties }]) => {
        const kind = properties?.kind?.const;
        return kind === undefined ? [] : [[kind, { $ref: `#/definitions/${name}`, definitions }] as const];
      }),
    ),
  );
}

/** Returns a check for Kubernetes objects, by their kind. */
export async function kubernetesCheck(): Promise<Check> {
  const ajv = newAjv();
  for (const [kind, schema] of await kindSchemas()) {
    ajv.addSchema(schema, kind);
  }
  return (value) => checkWith(ajv, String((value as { readonly kind?: string }).kind))(value);
}

/** Writes a schema file for each kind, as kubeconform reads them. */
export async function writeKindSchemas(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const [kind, schema] of await kindSchemas()) {
    await writeFile(join(directory, `${kind.toLowerCase()}.json`), JSON.stringify(schema));
  }
}

/** Validates against the schemas under test/schemas. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";

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

/** Returns a check for Kubernetes objects, by their kind. */
export async function kubernetesCheck(): Promise<Check> {
  const ajv = newAjv();
  const schema = await load("kubernetes.json");
  ajv.addSchema(schema, "kubernetes");
  const { definitions } = schema as Definitions;
  const names = new Map(
    Object.entries(definitions).map(([name, { properties }]) => [properties?.kind?.const, name]),
  );
  return (value) => {
    const { kind } = value as { readonly kind?: string };
    return checkWith(ajv, `kubernetes#/definitions/${names.get(kind) ?? String(kind)}`)(value);
  };
}

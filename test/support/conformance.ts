/** Checks exchanges against the service's own OpenAPI document. */
import { Ajv2020 } from "ajv/dist/2020.js";
import type { TestApi } from "./api.ts";

interface Media {
  readonly schema?: object;
}
interface Body {
  readonly content?: Readonly<Record<string, Media>>;
}
interface Operation {
  readonly requestBody?: Body;
  readonly responses: Readonly<Record<string, Body>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: object;
}

/** One request and its response. */
export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly contentType: string | null;
  readonly body: string | null;
  readonly status: number;
  readonly answerType: string | null;
  readonly answer: string;
}

export interface Conformance {
  /** Returns everything in an exchange that the document does not describe. */
  faultsOf(exchange: Exchange): string[];
}

/** Fixed parts take precedence over parameters: `/dlq/groups` is not `/dlq/{id}`. */
function specificity(path: string): number {
  return path.split("{").length;
}

const FORM = "application/x-www-form-urlencoded";

function readBody(text: string, type: string): unknown {
  if (type === "application/x-ndjson" || type === "text/event-stream") {
    return text;
  }
  return type === FORM ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);
}

/** Returns a copy of the document in which objects have the described members only. */
function withoutOtherMembers(document: object): object {
  return JSON.parse(JSON.stringify(document), (_name, value: unknown) =>
    typeof value === "object" && value !== null && "properties" in value
      ? { additionalProperties: false, ...value }
      : value,
  ) as object;
}

/** Reads the document of a running api. */
export async function readConformance(api: TestApi): Promise<Conformance> {
  const { body } = await api.request("/openapi.json");
  const { paths, components } = withoutOtherMembers(body) as unknown as Document;
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: "https://signet.example/openapi", components });
  const patterns = Object.keys(paths)
    .toSorted((a, b) => specificity(a) - specificity(b))
    .map((path) => ({ path, pattern: new RegExp(`^${path.replaceAll(/\{[a-z_]+\}/g, "[^/]+")}$`) }));
  const find = (path: string): string | undefined => patterns.find(({ pattern }) => pattern.test(path))?.path;

  function check(what: string, { content = {} }: Body, type: string | null, text: string): string[] {
    const [mime = ""] = (type ?? "").split(";");
    if (text === "" && Object.keys(content).length === 0) {
      return [];
    }
    // The OAuth endpoints take the members of their JSON bodies as a form too; generators understand one type only.
    const media = content[mime] ?? (mime === FORM ? content["application/json"] : undefined);
    if (media === undefined) {
      return [`${what}: ${mime || "no type"} is not described`];
    }
    const schema = JSON.parse(
      JSON.stringify(media.schema ?? {}).replaceAll(
        '"#/components/',
        '"https://signet.example/openapi#/components/',
      ),
    ) as object;
    const validate = ajv.compile(schema);
    return validate(readBody(text, mime)) ? [] : [`${what}: ${ajv.errorsText(validate.errors)}`];
  }

  return {
    faultsOf: ({ method, path, contentType, body: sent, status, answerType, answer }) => {
      const what = `${method} ${path}`;
      const operation = paths[find(path) ?? ""]?.[method.toLowerCase()];
      if (operation === undefined) {
        return [`${what} is not described`];
      }
      const response = operation.responses[String(status)];
      return [
        // A rejected request need not match the document.
        ...(sent === null || status >= 400
          ? []
          : check(`${what}, request`, operation.requestBody ?? {}, contentType, sent)),
        ...(response === undefined
          ? [`${what}: status ${status} is not described`]
          : check(`${what}, ${status}`, response, answerType, answer)),
      ];
    },
  };
}

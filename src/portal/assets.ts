/** The portal's static files: read once, named by a hash of their content, cached by browsers indefinitely. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Type } from "typebox";
import { bundleScript, SCRIPTS, type ScriptName } from "./bundle-script.ts";
import { makeDocument, type PublicDocument, sendDocument } from "#http/public-document.ts";
import { Closed } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { nothingHere } from "#domain/errors.ts";

const DIRECTORY = new URL("./assets/", import.meta.url);
const TYPES = { css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8", svg: "image/svg+xml" };
const FILES = ["portal.css", "guide.css", "htmx.min.js", "icon.svg"] as const;

export type AssetName = (typeof FILES)[number] | ScriptName;

const isScript = (name: AssetName): name is ScriptName => SCRIPTS.some((script) => script === name);

/** Returns a file as it is served; strips comments and white space from style sheets. */
function readAsset(name: AssetName): Buffer {
  // A build has the scripts as files.
  if (isScript(name) && import.meta.url.endsWith(".ts")) {
    return bundleScript(name);
  }
  const bytes = readFileSync(new URL(name, DIRECTORY));
  const minified = (text: string): string => text.replace(/\/\*.*?\*\/|\s*\n\s*/gs, "");
  return name.endsWith(".css") ? Buffer.from(minified(bytes.toString("utf8"))) : bytes;
}

/** Reads the files. `htmx.min.js` is htmx.org 2.0.11 as published (Zero-Clause BSD). */
export class Assets {
  readonly #served = new Map<string, PublicDocument>();
  readonly #paths = new Map<AssetName, string>();

  constructor() {
    for (const name of [...FILES, ...SCRIPTS]) {
      const plain = readAsset(name);
      const hash = createHash("sha256").update(plain).digest("hex").slice(0, 16);
      const extension = name.slice(name.lastIndexOf(".") + 1) as keyof typeof TYPES;
      const file = `${name.slice(0, name.indexOf("."))}.${hash}.${extension}`;
      this.#served.set(file, makeDocument(TYPES[extension], plain));
      this.#paths.set(name, `/portal/assets/${file}`);
    }
  }

  /** Returns the URL path of a file. */
  path(name: AssetName): string {
    return this.#paths.get(name) ?? "";
  }

  register(scope: SignetServer): void {
    scope.get(
      "/assets/:file",
      {
        config: { public: true },
        schema: { hide: true, params: Closed({ file: Type.String({ maxLength: 64 }) }) },
      },
      (request, reply) => {
        const asset = this.#served.get(request.params.file);
        if (asset === undefined) {
          throw nothingHere();
        }
        sendDocument(request, reply, asset, { "cache-control": "public, max-age=31536000, immutable" });
      },
    );
  }
}

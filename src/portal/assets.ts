/** The portal's own files: read once, named by their contents, kept by browsers for good. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { Type } from "typebox";
import { Closed } from "../api/schemas/common.ts";
import type { SignetServer } from "../api/types.ts";
import { nothingHere } from "../errors.ts";

const DIRECTORY = new URL("./assets/", import.meta.url);
const TYPES = { css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8", svg: "image/svg+xml" };
const FILES = [
  "portal.css",
  "portal.js",
  "htmx.min.js",
  "icon.svg",
  "compliance.js",
  "log-proof.js",
] as const;

export type AssetName = (typeof FILES)[number];

interface Asset {
  readonly type: string;
  readonly plain: Buffer;
  readonly zipped: Buffer;
}

export interface Assets {
  /** Where a file is. */
  path(name: AssetName): string;
  register(scope: SignetServer): void;
}

/** A file as it is sent: style sheets without the comments and the white space that are for people. */
function readAsset(name: AssetName): Buffer {
  const bytes = readFileSync(new URL(name, DIRECTORY));
  const minified = (text: string): string => text.replace(/\/\*.*?\*\/|\s*\n\s*/gs, "");
  return name.endsWith(".css") ? Buffer.from(minified(bytes.toString("utf8"))) : bytes;
}

/** Reads the files. `htmx.min.js` is htmx.org 2.0.11 as it is published (Zero-Clause BSD). */
export function loadAssets(): Assets {
  const served = new Map<string, Asset>();
  const paths = new Map<AssetName, string>();
  for (const name of FILES) {
    const plain = readAsset(name);
    const hash = createHash("sha256").update(plain).digest("hex").slice(0, 16);
    const extension = name.slice(name.lastIndexOf(".") + 1) as keyof typeof TYPES;
    const file = `${name.slice(0, name.indexOf("."))}.${hash}.${extension}`;
    served.set(file, { type: TYPES[extension], plain, zipped: gzipSync(plain, { level: 9 }) });
    paths.set(name, `/portal/assets/${file}`);
  }
  return {
    path: (name) => paths.get(name) ?? "",
    register: (scope) => {
      scope.get(
        "/assets/:file",
        {
          config: { public: true },
          schema: { hide: true, params: Closed({ file: Type.String({ maxLength: 64 }) }) },
        },
        async ({ params: { file }, headers }, reply) => {
          const asset = served.get(file);
          if (asset === undefined) {
            throw nothingHere();
          }
          const zipped = /\bgzip\b/.test(headers["accept-encoding"] ?? "");
          return await reply
            .headers({
              "content-type": asset.type,
              "cache-control": "public, max-age=31536000, immutable",
              vary: "accept-encoding",
              ...(zipped ? { "content-encoding": "gzip" } : {}),
            })
            .send(zipped ? asset.zipped : asset.plain);
        },
      );
    },
  };
}

/** The portal's look: that of the service, of the installation by its settings, or of a tenant. */
import { createHash } from "node:crypto";
import { Type } from "typebox";
import { Closed } from "#http/common.ts";
import { makeDocument, type PublicDocument, sendDocument } from "#http/public-document.ts";
import type { SignetServer } from "#http/types.ts";
import { putBounded } from "#domain/bounded-map.ts";
import { nothingHere } from "#domain/errors.ts";
import { idPattern } from "#domain/ids.ts";
import { onAccent, type PortalBrand, readableAccent } from "#domain/portal-brand.ts";

/** What a page shows of a brand. */
export interface Brand {
  readonly name: string;
  /** Whether it is the look of the service itself. */
  readonly own: boolean;
  readonly returnUrl: string | undefined;
  readonly support: string | undefined;
  /** Path of the style sheet with its colours. */
  readonly styles: string | undefined;
  readonly logo: { readonly path: string; readonly type: string } | undefined;
}

interface Look {
  readonly brand: Brand;
  /** Its files by name. */
  readonly files: ReadonlyMap<string, PublicDocument>;
}

export interface PortalBrandsOptions {
  /** Brand of the installation. */
  readonly settings: Partial<PortalBrand>;
  /** Returns the members in which a tenant's brand differs. */
  readonly find: (tenantId: string) => Promise<Partial<PortalBrand>>;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
}

const OWN_NAME = "Signet";
const INSTALLATION = "installation";
/** How long a tenant's brand is kept, in milliseconds. */
const KEPT_MS = 5_000;
/** Each may have a logo of 32 KiB. */
const KEPT_MAX = 256;
const TENANT = new RegExp(idPattern("tenant"));
const OWNER_PATTERN = `^${INSTALLATION}$|${idPattern("tenant")}`;

/** Returns the colours as a style sheet: the one for dark pages is derived if it is not given. */
function stylesOf({ accent, accentDark }: Partial<PortalBrand>): string | undefined {
  const dark = accentDark ?? (accent === undefined ? undefined : readableAccent(accent, "dark"));
  const rule = (colour: string): string => `:root{--accent:${colour};--on-accent:${onAccent(colour)}}`;
  const rules = [
    ...(accent === undefined ? [] : [rule(accent)]),
    ...(dark === undefined ? [] : [`@media(prefers-color-scheme:dark){${rule(dark)}}`]),
  ];
  return rules.length === 0 ? undefined : rules.join("");
}

function lookOf(owner: string, given: Partial<PortalBrand>): Look {
  const files = new Map<string, PublicDocument>();
  const add = (type: string, extension: string, content: string | Buffer): string => {
    const hash = createHash("sha256").update(content).digest("hex").slice(0, 16);
    files.set(`${hash}.${extension}`, makeDocument(type, content));
    return `/portal/brand/${owner}/${hash}.${extension}`;
  };
  const styles = stylesOf(given);
  const { name = OWN_NAME, logo, returnUrl, support } = given;
  const brand = {
    name,
    own: name === OWN_NAME && logo === undefined,
    returnUrl,
    support,
    styles: styles === undefined ? undefined : add("text/css; charset=utf-8", "css", styles),
    logo: logo && {
      type: logo.type,
      path: add(logo.type, logo.type.slice("image/".length), Buffer.from(logo.data, "base64")),
    },
  };
  return { brand, files };
}

export class PortalBrands {
  readonly #options: PortalBrandsOptions;
  readonly #installation: Look;
  readonly #kept = new Map<string, { readonly look: Look; readonly until: number }>();

  constructor(options: PortalBrandsOptions) {
    this.#options = options;
    this.#installation = lookOf(INSTALLATION, options.settings);
  }

  /** The brand of pages without a tenant. */
  get installation(): Brand {
    return this.#installation.brand;
  }

  async #lookOf(owner: string): Promise<Look> {
    if (!TENANT.test(owner)) {
      return this.#installation;
    }
    const { settings, find, monotonic } = this.#options;
    const kept = this.#kept.get(owner);
    if (kept !== undefined && kept.until > monotonic()) {
      return kept.look;
    }
    const own = await find(owner);
    const look = Object.keys(own).length === 0 ? this.#installation : lookOf(owner, { ...settings, ...own });
    putBounded(this.#kept, owner, { look, until: monotonic() + KEPT_MS }, KEPT_MAX);
    return look;
  }

  /** Returns the brand of a tenant; the installation's for an unknown one. */
  async of(tenantId: string): Promise<Brand> {
    return (await this.#lookOf(tenantId)).brand;
  }

  /** Returns the brand for a link or a cookie, which begin with the tenant's id. */
  async ofSecret(secret: string | undefined): Promise<Brand> {
    return await this.of(secret?.split(".", 1)[0] ?? "");
  }

  /** Registers the files of the brands. Their names change with their contents. */
  register(scope: SignetServer): void {
    scope.get(
      "/brand/:owner/:file",
      {
        config: { public: true },
        schema: {
          hide: true,
          params: Closed({
            owner: Type.String({ pattern: OWNER_PATTERN }),
            file: Type.String({ maxLength: 64 }),
          }),
        },
      },
      async (request, reply) => {
        const { owner, file } = request.params;
        const found = (await this.#lookOf(owner)).files.get(file);
        if (found === undefined) {
          throw nothingHere();
        }
        return sendDocument(request, reply, found, {
          "cache-control": "public, max-age=31536000, immutable",
        });
      },
    );
  }
}

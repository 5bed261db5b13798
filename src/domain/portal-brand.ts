/** The brand of the portal: names, links and colours, and what makes text in such a colour readable (WCAG 2.2). */

/** A brand: of the installation, or what a tenant's differs in. */
export interface PortalBrand {
  readonly name: string;
  /** Colour of links and buttons on light pages, `#rrggbb`. */
  readonly accent: string;
  /** The same on dark pages. */
  readonly accentDark: string;
  /** Where people return to; https, in development also http. */
  readonly returnUrl: string;
  /** E-mail address, or https URL, of the support. */
  readonly support: string;
  readonly logo: PortalLogo;
}

export interface PortalLogo {
  readonly type: "image/png" | "image/webp";
  /** The image in base64. */
  readonly data: string;
}

/** Maximum size of a logo, in bytes. */
export const LOGO_MAX = 32_768;
export const BRAND_NAME_MAX = 64;
export const BRAND_URL_MAX = 2_048;
export const COLOUR_PATTERN = "^#[0-9a-fA-F]{6}$";

/** Backgrounds of text in the accent colour (src/portal/assets/portal.css). */
const BACKGROUNDS = { light: ["#ffffff", "#f6f7f9"], dark: ["#191f29", "#10141b"] } as const;
/** Text on buttons in the accent colour. */
const ON_ACCENT = ["#ffffff", "#0d1730"] as const;
/** Least contrast of text (WCAG 2.2, 1.4.3). */
const CONTRAST_MIN = 4.5;
const STEPS = 64;

export type ColourScheme = keyof typeof BACKGROUNDS;

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

/** Returns the relative luminance of a colour, 0 to 1. */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map((channel) => {
    const share = channel / 255;
    return share <= 0.040_45 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Returns the contrast of two colours, 1 to 21. */
export function contrast(one: string, other: string): number {
  const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

function leastContrast(colour: string, scheme: ColourScheme): number {
  return Math.min(...BACKGROUNDS[scheme].map((background) => contrast(colour, background)));
}

function mixed(colour: string, target: string, share: number): string {
  const aims = channels(target);
  const parts = channels(colour).map((channel, index) =>
    Math.round(channel + ((aims[index] ?? 0) - channel) * share)
      .toString(16)
      .padStart(2, "0"),
  );
  return `#${parts.join("")}`;
}

/** Returns the nearest darker, or on dark pages lighter, colour with enough contrast; the colour itself if it has. */
export function readableAccent(colour: string, scheme: ColourScheme): string {
  const target = scheme === "light" ? "#000000" : "#ffffff";
  for (let step = 0; step < STEPS; step += 1) {
    const candidate = mixed(colour, target, step / STEPS);
    if (leastContrast(candidate, scheme) >= CONTRAST_MIN) {
      return candidate;
    }
  }
  return target;
}

/** Returns why a colour is not readable on the pages, as a sentence without its subject; undefined if it is. */
export function accentProblem(colour: string, scheme: ColourScheme): string | undefined {
  const least = leastContrast(colour, scheme);
  return least >= CONTRAST_MIN
    ? undefined
    : `has a contrast of ${(Math.floor(least * 10) / 10).toFixed(1)}:1 to the ${scheme} pages, and text needs ${CONTRAST_MIN}:1; the nearest such colour is ${readableAccent(colour, scheme)}`;
}

/** Returns the colour of text on the accent colour, white or nearly black. */
export function onAccent(accent: string): string {
  const [light, dark] = ON_ACCENT;
  return contrast(accent, light) >= contrast(accent, dark) ? light : dark;
}

function startsWith(bytes: Uint8Array, signature: readonly number[], at = 0): boolean {
  return signature.every((byte, index) => bytes[at + index] === byte);
}

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const PNG_END = [0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82];
const RIFF = [0x52, 0x49, 0x46, 0x46];
const WEBP = [0x57, 0x45, 0x42, 0x50];

/** Returns the type of an image by its bytes; undefined unless it is a complete PNG or WebP. */
export function logoType(bytes: Uint8Array): PortalLogo["type"] | undefined {
  if (startsWith(bytes, PNG) && startsWith(bytes, PNG_END, bytes.length - PNG_END.length)) {
    return "image/png";
  }
  const [b0 = 0, b1 = 0, b2 = 0, b3 = 0] = bytes.subarray(4, 8);
  const length = b0 + b1 * 2 ** 8 + b2 * 2 ** 16 + b3 * 2 ** 24;
  return startsWith(bytes, RIFF) && startsWith(bytes, WEBP, 8) && length === bytes.length - 8
    ? "image/webp"
    : undefined;
}

/** Whether a text is an e-mail address or an https URL. */
export function isSupport(text: string): boolean {
  return /^[^\s@<>"]{1,64}@[^\s@<>"]{1,190}$/.test(text) || /^https:\/\/[^\s<>"]{1,2000}$/.test(text);
}

/**
 * Checks `xn--` labels of host names. Node 22 rejects invalid ones in `new URL`, Node 24 accepts any. This check is
 * independent of Node and as strict as the strictest version (RFC 3492, RFC 5891 section 4.2, UTS 46).
 */

const BASE = 36;
const T_MIN = 1;
const T_MAX = 26;
const SKEW = 38;
const DAMP = 700;
const FIRST_BIAS = 72;
const FIRST_CODE_POINT = 128;
const LAST_CODE_POINT = 0x10_ff_ff;

const DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789";
/** Scripts in common use (UAX 31, table 5), and marks allowed with any of them. */
const SCRIPTS =
  /^[\p{scx=Arab}\p{scx=Armn}\p{scx=Beng}\p{scx=Bopo}\p{scx=Cyrl}\p{scx=Deva}\p{scx=Ethi}\p{scx=Geor}\p{scx=Grek}\p{scx=Gujr}\p{scx=Guru}\p{scx=Hang}\p{scx=Hani}\p{scx=Hebr}\p{scx=Hira}\p{scx=Kana}\p{scx=Khmr}\p{scx=Knda}\p{scx=Laoo}\p{scx=Latn}\p{scx=Mlym}\p{scx=Mymr}\p{scx=Orya}\p{scx=Sinh}\p{scx=Taml}\p{scx=Telu}\p{scx=Thaa}\p{scx=Thai}\p{scx=Tibt}\p{sc=Zinh}0-9·-]+$/u;
/** RFC 5892, simplified: a letter or digit first, then also marks, two middle dots and the hyphen. */
const CHARACTERS = /^[\p{L}\p{Nd}][\p{L}\p{M}\p{Nd}·・-]*$/u;
/**
 * Invisible characters. Beyond the basic plane, allow only its oldest ideographs; within it, nothing newer than
 * Unicode 15.0, because Node versions differ.
 */
const UNFIT =
  /[\u1ab0-\u1aff\p{DI}\u0860-\u08ff\u0c5c\u0cdc\u1c89\u1c8a\ua7cb-\ua7dc\ua7f1\u{10000}-\u{1ffff}\u{2a6d7}-\u{10ffff}]/u;
const RIGHT_TO_LEFT = /[\p{scx=Arab}\p{scx=Hebr}\p{scx=Thaa}]/u;
/**
 * RFC 5893 section 2, simplified: starts with a letter of such a script, ends with a letter or digit, and has digits
 * of one kind. Other scripts' digits and spacing marks run from left to right.
 */
const RIGHT_TO_LEFT_LABEL =
  /^(?!.*[0-9\u06f0-\u06f9].*[\u0660-\u0669])(?!.*[\u0660-\u0669].*[0-9\u06f0-\u06f9])(?=[\p{sc=Arab}\p{sc=Hebr}\p{sc=Thaa}])\p{L}(?:[\p{sc=Arab}\p{sc=Hebr}\p{sc=Thaa}\p{Mn}0-9\u0660-\u0669-]*[\p{sc=Arab}\p{sc=Hebr}\p{sc=Thaa}0-9\u0660-\u0669]\p{Mn}*)?$/u;

function adapt(delta: number, length: number, first: boolean): number {
  let rest = first ? Math.floor(delta / DAMP) : delta >> 1;
  rest += Math.floor(rest / length);
  let k = 0;
  for (; rest > ((BASE - T_MIN) * T_MAX) >> 1; k += BASE) {
    rest = Math.floor(rest / (BASE - T_MIN));
  }
  return k + Math.floor(((BASE - T_MIN + 1) * rest) / (rest + SKEW));
}

/** Reads one generalised variable-length integer (RFC 3492 section 3.3): its value and its end. */
function readDelta(text: string, from: number, bias: number): { value: number; end: number } | undefined {
  let value = 0;
  let weight = 1;
  for (let end = from, k = BASE; end < text.length; end += 1, k += BASE) {
    const digit = DIGITS.indexOf(text.charAt(end));
    if (digit === -1) {
      return undefined;
    }
    value += digit * weight;
    const threshold = Math.min(Math.max(k - bias, T_MIN), T_MAX);
    if (digit < threshold) {
      return { value, end: end + 1 };
    }
    weight *= BASE - threshold;
    if (value > LAST_CODE_POINT * 64) {
      return undefined;
    }
  }
  return undefined;
}

/** Decodes Punycode; undefined if it is invalid (RFC 3492 section 6.2). */
function decodePunycode(text: string): string | undefined {
  const hyphen = text.lastIndexOf("-");
  const decoded = hyphen > 0 ? Array.from(Buffer.from(text.slice(0, hyphen), "latin1")) : [];
  let codePoint = FIRST_CODE_POINT;
  let bias = FIRST_BIAS;
  let index = 0;
  for (let at = hyphen > 0 ? hyphen + 1 : 0; at < text.length;) {
    const delta = readDelta(text, at, bias);
    if (delta === undefined) {
      return undefined;
    }
    const length = decoded.length + 1;
    bias = adapt(delta.value, length, at === (hyphen > 0 ? hyphen + 1 : 0));
    index += delta.value;
    codePoint += Math.floor(index / length);
    index %= length;
    if (codePoint > LAST_CODE_POINT || (codePoint >= 0xd8_00 && codePoint <= 0xdf_ff)) {
      return undefined;
    }
    decoded.splice(index, 0, codePoint);
    index += 1;
    at = delta.end;
  }
  return String.fromCodePoint(...decoded);
}

/** Whether case folding leaves the text unchanged. UTS 46 treats these three letters as distinct. */
function isFolded(text: string): boolean {
  const rest = text.replaceAll(/[ßςı]/g, "");
  return rest === rest.toUpperCase().toLowerCase();
}

/**
 * Whether a lower-case label that begins with `xn--` is the A-label of a valid U-label. A valid U-label has letters,
 * marks and digits of scripts in common use, normalised and in lower case. Symbols, joiners and mixed directions are
 * rejected.
 */
export function isValidALabel(label: string): boolean {
  const decoded = decodePunycode(label.slice("xn--".length));
  return (
    decoded !== undefined &&
    /[^\0-\x7f]/.test(decoded) &&
    decoded === decoded.normalize("NFKC") &&
    isFolded(decoded) &&
    CHARACTERS.test(decoded) &&
    SCRIPTS.test(decoded) &&
    !UNFIT.test(decoded) &&
    (!RIGHT_TO_LEFT.test(decoded) || RIGHT_TO_LEFT_LABEL.test(decoded))
  );
}

/**
 * Code in several languages as tabs: consecutive blocks of different languages, which GitHub shows below each other. Radio
 * buttons and portal.css make the tabs, so that they work without scripts. Old browsers show all blocks.
 */
import type { MarkedExtension, Token, Tokens } from "marked";

/** Languages of tabs, as blocks name them. Blocks of other languages stay as they are. */
const LABELS: Readonly<Record<string, string>> = { ts: "TypeScript", python: "Python", go: "Go" };

interface Tabs extends Tokens.Generic {
  readonly type: "tabs";
  readonly blocks: readonly Tokens.Code[];
}

function languageOf(token: Token | undefined): string {
  return token?.type === "code" ? ((token as Tokens.Code).lang ?? "") : "";
}

/** Whether readers see nothing of a token: blank lines, and the comments around generated parts. */
function isInvisible({ type, raw }: Token): boolean {
  return type === "space" || (type === "html" && /^<!--[^]*-->\s*$/.test(raw));
}

/** Returns the blocks from a position on that are in different languages, with nothing visible between them. */
function runAt(tokens: readonly Token[], start: number): { blocks: Tokens.Code[]; end: number } {
  const blocks: Tokens.Code[] = [];
  let end = start;
  for (let at = start; at < tokens.length; at += 1) {
    const token = tokens[at] as Token;
    const language = languageOf(token);
    if (language in LABELS && !blocks.some((block) => block.lang === language)) {
      blocks.push(token as Tokens.Code);
      end = at + 1;
    } else if (!isInvisible(token)) {
      break;
    }
  }
  return { blocks, end };
}

function grouped(tokens: readonly Token[]): Token[] {
  const result: Token[] = [];
  for (let at = 0; at < tokens.length;) {
    const { blocks, end } = runAt(tokens, at);
    if (blocks.length > 1) {
      result.push({ type: "tabs", raw: "", blocks } satisfies Tabs);
      at = end;
    } else {
      result.push(tokens[at] as Token);
      at += 1;
    }
  }
  return result;
}

/** Creates the extension of marked for one page, whose groups are numbered. */
export function codeTabs(): MarkedExtension {
  let count = 0;
  return {
    hooks: { processAllTokens: (tokens) => grouped(tokens) },
    extensions: [
      {
        name: "tabs",
        renderer(token) {
          count += 1;
          const name = `tabs-${count}`;
          const { blocks } = token as Tabs;
          const choices = blocks.map(
            ({ lang = "" }, index) =>
              `<label><input type="radio" name="${name}" value="${lang}" autocomplete="off"${index === 0 ? " checked" : ""}> ${LABELS[lang]}</label>\n`,
          );
          const panels = blocks.map(
            (block) =>
              `<div class="tab ${block.lang}" role="group" aria-label="${LABELS[block.lang ?? ""]}">${this.parser.parse([block])}</div>\n`,
          );
          return `<fieldset class="tabs"><legend class="hidden">Language</legend>\n<p class="tab-names">${choices.join("")}</p>\n${panels.join("")}</fieldset>\n`;
        },
      },
    ],
  };
}

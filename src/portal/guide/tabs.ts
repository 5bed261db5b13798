/**
 * Code in several languages as tabs: consecutive blocks of different languages, which GitHub shows below each other. Radio
 * buttons and the style sheet make the tabs, so that they work without scripts.
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

/** Returns the blocks from a position on that are in different languages, with nothing but blank lines between them. */
function runAt(tokens: readonly Token[], start: number): { blocks: Tokens.Code[]; end: number } {
  const blocks: Tokens.Code[] = [];
  let end = start;
  for (let at = start; at < tokens.length; at += 1) {
    const token = tokens[at] as Token;
    const language = languageOf(token);
    if (language in LABELS && !blocks.some((block) => block.lang === language)) {
      blocks.push(token as Tokens.Code);
      end = at + 1;
    } else if (token.type !== "space") {
      break;
    }
  }
  return { blocks, end };
}

function grouped(tokens: readonly Token[]): Token[] {
  const result: Token[] = [];
  for (let at = 0; at < tokens.length; ) {
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
    hooks: { processAllTokens: (tokens) => grouped(tokens as Token[]) },
    extensions: [
      {
        name: "tabs",
        renderer(token) {
          count += 1;
          const name = `tabs-${count}`;
          const { blocks } = token as Tabs;
          const choices = blocks.map(({ lang = "" }, index) => {
            const id = `${name}-${lang}`;
            return `<input type="radio" name="${name}" id="${id}" value="${lang}"${index === 0 ? " checked" : ""}><label for="${id}">${LABELS[lang]}</label>\n`;
          });
          const panels = blocks.map(
            (block) =>
              `<section aria-label="${LABELS[block.lang ?? ""]}">${this.parser.parse([block])}</section>\n`,
          );
          return `<fieldset class="tabs"><legend class="hidden">Language</legend>\n${choices.join("")}${panels.join("")}</fieldset>\n`;
        },
      },
    ],
  };
}

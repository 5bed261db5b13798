/** The search of the guide. The server and the script in the browser run the same code over the same index. */

/** What lies between two headings of a document. */
export interface Section {
  /** Path and anchor of the heading. */
  readonly address: string;
  /** Title of the page. */
  readonly page: string;
  readonly heading: string;
  /** Plain text without the heading. */
  readonly text: string;
}

export interface Hit extends Section {
  /** Text around the first word that was found: before it, the word, after it. */
  readonly excerpt: readonly [before: string, found: string, after: string];
}

/** Maximum length of a query, in characters. */
export const QUERY_MAX = 100;
/** Further words of a query are ignored. */
const WORDS_MAX = 6;
const HITS_MAX = 20;
const BEFORE = 60;
const AFTER = 140;

interface Lowered {
  readonly section: Section;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
}

/** Returns how well a section matches a word; 0 if it does not contain it. */
function weigh({ page, heading, text }: Lowered, word: string): number {
  const at = text.indexOf(word);
  const inText = at === -1 ? 0 : 1 + Number(at === 0 || !/\w/.test(text[at - 1] ?? ""));
  return inText + (heading.includes(word) ? 8 : 0) + (page.includes(word) ? 3 : 0);
}

function excerptOf({ section, text }: Lowered, words: readonly string[]): Hit["excerpt"] {
  const word = words.find((each) => text.includes(each));
  const at = word === undefined ? 0 : text.indexOf(word);
  const end = at + (word?.length ?? 0);
  const from = Math.max(0, at - BEFORE);
  const before = `${from > 0 ? "…" : ""}${section.text.slice(from, at)}`;
  const after = `${section.text.slice(end, end + AFTER)}${end + AFTER < section.text.length ? "…" : ""}`;
  return [before, section.text.slice(at, end), after];
}

/** Returns a function that finds the sections with all words of a query, best first; of equals, in reading order. */
export function createSearch(sections: readonly Section[]): (query: string) => readonly Hit[] {
  const lowered = sections.map((section) => ({
    section,
    page: section.page.toLowerCase(),
    heading: section.heading.toLowerCase(),
    text: section.text.toLowerCase(),
  }));
  return (query) => {
    const words = query.slice(0, QUERY_MAX).toLowerCase().split(/\s+/).filter(Boolean).slice(0, WORDS_MAX);
    if (words.length === 0) {
      return [];
    }
    const found: { readonly each: Lowered; readonly weight: number }[] = [];
    for (const each of lowered) {
      let weight = 0;
      const matches = words.every((word) => {
        const own = weigh(each, word);
        weight += own;
        return own > 0;
      });
      if (matches) {
        found.push({ each, weight });
      }
    }
    return found
      .toSorted((left, right) => right.weight - left.weight)
      .slice(0, HITS_MAX)
      .map(({ each }) => ({ ...each.section, excerpt: excerptOf(each, words) }));
  };
}

/** Content negotiation (RFC 9110 section 12.5.1) for routes with several forms of an answer. */
import { elementsOf } from "./list-header.ts";

/** Returns a type's quality, 0 to 1, from the most specific range of the Accept header that matches it. */
function qualityOf(accept: string, type: string): number {
  const [main = ""] = type.split("/", 1);
  let best = { specificity: -1, quality: 0 };
  for (const part of accept.toLowerCase().split(",")) {
    const [range = "", ...parameters] = elementsOf(part, ";");
    const specificity = ["*/*", `${main}/*`, type].indexOf(range);
    if (specificity > best.specificity) {
      const q = parameters.find((parameter) => parameter.startsWith("q="));
      const quality = q === undefined ? 1 : Number(q.slice(2));
      best = { specificity, quality: quality >= 0 && quality <= 1 ? quality : 0 };
    }
  }
  return best.quality;
}

/** Whether the client prefers HTML to JSON, as browsers do. JSON is the default. */
export function prefersHtml(accept: string | undefined): boolean {
  return (
    accept !== undefined &&
    ["application/json", "application/problem+json"].every(
      (json) => qualityOf(accept, "text/html") > qualityOf(accept, json),
    )
  );
}

/** What media type a client would rather have (RFC 9110 12.5.1), where an address has a page for people. */

/** How much a client wants a type, 0 to 1, by the most specific range of its Accept header that takes it in. */
function qualityOf(accept: string, type: string): number {
  const [main = ""] = type.split("/", 1);
  let best = { specificity: -1, quality: 0 };
  for (const part of accept.split(",")) {
    const [range = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const specificity = ["*/*", `${main}/*`, type].indexOf(range);
    if (specificity > best.specificity) {
      const q = parameters.find((parameter) => parameter.startsWith("q="));
      const quality = q === undefined ? 1 : Number(q.slice(2));
      best = { specificity, quality: quality >= 0 && quality <= 1 ? quality : 0 };
    }
  }
  return best.quality;
}

/** Whether the header names HTML and wants it more than JSON, as browsers do. JSON is for everybody else. */
export function prefersHtml(accept: string | undefined): boolean {
  return (
    accept !== undefined &&
    qualityOf(accept, "text/html") >
      Math.max(qualityOf(accept, "application/json"), qualityOf(accept, "application/problem+json"))
  );
}

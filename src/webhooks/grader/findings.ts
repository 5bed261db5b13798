/** What can be wrong with a receiver, and how to mend it. The codes are public API and stable. */

export type Severity = "critical" | "major" | "minor";

export interface FindingText {
  readonly severity: Severity;
  readonly problem: string;
  readonly advice: string;
}

/** Points that a finding costs, of 100. */
export const COST: Readonly<Record<Severity, number>> = { critical: 40, major: 15, minor: 5 };

const RAW_BODY =
  "Compute the signature over the raw bytes of the body, before anything parses it, and compare that; parse afterwards.";

export const FINDINGS = {
  unreachable: {
    severity: "critical",
    problem: "No answer came to a valid delivery.",
    advice: "Answer every delivery with 2xx within 10 seconds. Nothing else could be tried.",
  },
  refuses_valid: {
    severity: "critical",
    problem: "It refuses a valid delivery.",
    advice:
      "Verify with the endpoint's secret as it was shown, whsec_ and all for sha256=, over the raw body, and look at the clock of the receiver. Nothing else could be tried.",
  },
  redirects: {
    severity: "major",
    problem: "It answers with a redirect.",
    advice: "Redirects are never followed: a 3xx is a failed delivery. Register the URL that answers itself.",
  },
  slow_answer: {
    severity: "major",
    problem: "It takes long to answer.",
    advice:
      "A delivery fails after 10 seconds. Store the event, answer with 2xx, and do the work afterwards.",
  },
  refuses_duplicates: {
    severity: "major",
    problem: "It refuses a delivery that it had before.",
    advice:
      "A delivery comes again when its answer was lost. Answer 2xx to an event id that you have, and do nothing; any other answer is a failure and makes it come again.",
  },
  refuses_retries: {
    severity: "major",
    problem: "It refuses another attempt of an event that it had before.",
    advice:
      "A retry has the same event id, the next attempt number and a signature of its own. Answer 2xx to an event id that you have, and do nothing.",
  },
  duplicates_processed: {
    severity: "critical",
    problem: "It processes an event twice.",
    advice:
      "Deliveries can come more than once. Keep the ids of the events that were processed, in one atomic step with the work or before it, and drop those that you have.",
  },
  id_header_trusted: {
    severity: "critical",
    problem: "It takes a delivery for a new one when only the event id in a header is another.",
    advice:
      "sha256= covers the body alone. Take the id from the signed body (or the one that webhook-signature covers), and refuse a request whose headers say otherwise.",
  },
  refuses_older_events: {
    severity: "major",
    problem: "It refuses an event that occurred an hour ago.",
    advice:
      "Events come out of order and up to days late. Check the age of `sent_at`, which is when this attempt was signed, and not `timestamp`, which is when the event occurred.",
  },
  clock_too_strict: {
    severity: "minor",
    problem: "It refuses a delivery that was signed two minutes ago.",
    advice: "Accept what is up to 300 seconds old, and keep the receiver's clock in step (NTP).",
  },
  body_reserialised: {
    severity: "critical",
    problem: "It verifies a body that was parsed and written again.",
    advice: `Numbers such as 1.0 and 2^60, escapes and white space do not survive that. ${RAW_BODY}`,
  },
  header_case: {
    severity: "major",
    problem: "It reads header names in one spelling only.",
    advice:
      "Header names have no case (RFC 9110 5.1), and proxies change it. Look them up without regard to it.",
  },
  ignores_second_signature: {
    severity: "minor",
    problem: "It looks at one signature only.",
    advice:
      "While a secret rotates there are two: accept when any of X-Service-Signature-256, X-Service-Signature-256-Alt and the entries of webhook-signature matches any of your secrets.",
  },
  large_body: {
    severity: "major",
    problem: "It fails with a body of 256 KiB.",
    advice: "Events have up to 256 KiB of data. Allow bodies of at least 512 KiB, and refuse larger ones.",
  },
  slow_body: {
    severity: "major",
    problem: "It fails when the body comes in pieces.",
    advice: "Read the body to its end, however many pieces it comes in; allow 10 seconds for that.",
  },
  accepts_wrong_signature: {
    severity: "critical",
    problem: "It accepts a wrong signature.",
    advice: "Verify every request, and refuse with 401 what no secret of yours has signed.",
  },
  accepts_unsigned: {
    severity: "critical",
    problem: "It accepts a request without a signature.",
    advice: "A missing signature is a wrong one: refuse it with 400.",
  },
  accepts_truncated_signature: {
    severity: "critical",
    problem: "It accepts the beginning of a signature.",
    advice:
      "Compare whole signatures: check that both have the same length, then compare in constant time (CVE-2024-21491).",
  },
  accepts_stale: {
    severity: "critical",
    problem: "It accepts a delivery that was signed 15 minutes ago.",
    advice:
      "Refuse with 401 what was signed more than 300 seconds ago. Retries are signed anew, so they are never old.",
  },
  accepts_future: {
    severity: "major",
    problem: "It accepts a delivery that was signed 15 minutes in the future.",
    advice:
      "Refuse with 401 what is more than 60 seconds ahead: else it stays fresh for longer than 300 seconds.",
  },
  timestamp_header_trusted: {
    severity: "critical",
    problem: "It accepts an old delivery when the timestamp in the header is a fresh one.",
    advice:
      "sha256= covers the body alone, so whoever has seen one delivery can repeat it with a new header. Refuse when X-Service-Timestamp differs from `sent_at` in the signed body.",
  },
  wrong_refusal_status: {
    severity: "minor",
    problem: "It refuses a bad request with the wrong status, or with none.",
    advice:
      "Answer 400 to malformed headers and 401 to wrong signatures. 5xx says that you have failed, 410 that you want no more deliveries at all.",
  },
  broken_by_bad_requests: {
    severity: "critical",
    problem: "After the bad requests it does not accept a valid delivery any more.",
    advice: "Anybody can send bad requests to it: they must not block it, fill it or end it.",
  },
} as const satisfies Readonly<Record<string, FindingText>>;

export type FindingCode = keyof typeof FINDINGS;

/** How to make visible what cannot be seen from outside. */
export const HOW_TO_OBSERVE =
  'Answer events of type signet.grade with the JSON body {"processed":true} when you have taken the event, and {"processed":false} when you have dropped it as one that you had.';

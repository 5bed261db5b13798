/** Possible faults of a receiver, and how to fix them. The codes are a stable public API. */

export type Severity = "critical" | "major" | "minor";

export interface FindingText {
  readonly severity: Severity;
  readonly problem: string;
  readonly advice: string;
}

/** Points that a finding deducts from 100. */
export const COST: Readonly<Record<Severity, number>> = { critical: 40, major: 15, minor: 5 };

const RAW_BODY =
  "Compute the signature over the raw bytes of the body, before parsing it. Parse only after the signature matches.";

export const FINDINGS = {
  unreachable: {
    severity: "critical",
    problem: "It does not respond to a valid delivery.",
    advice: "Respond to every delivery with 2xx within 10 seconds. The other checks were skipped.",
  },
  refuses_valid: {
    severity: "critical",
    problem: "It rejects a valid delivery.",
    advice:
      "Verify the raw body with the endpoint's secret as shown; sha256= uses it with its whsec_ prefix. Check the receiver's clock. The other checks were skipped.",
  },
  redirects: {
    severity: "major",
    problem: "It responds with a redirect.",
    advice: "Redirects are never followed: a 3xx is a failed delivery. Register the final URL.",
  },
  slow_answer: {
    severity: "major",
    problem: "It responds slowly.",
    advice:
      "A delivery fails after 10 seconds. Store the event, respond with 2xx, and process it afterwards.",
  },
  refuses_duplicates: {
    severity: "major",
    problem: "It rejects a repeated delivery.",
    advice:
      "A delivery is repeated if its response was lost. Respond with 2xx to a known event id, and do nothing. Any other response is a failure and causes another attempt.",
  },
  refuses_retries: {
    severity: "major",
    problem: "It rejects another attempt of an event that it has already received.",
    advice:
      "A retry has the same event id, the next attempt number and a new signature. Respond with 2xx to a known event id, and do nothing.",
  },
  duplicates_processed: {
    severity: "critical",
    problem: "It processes an event twice.",
    advice:
      "Deliveries can arrive more than once. Store the ids of processed events, atomically with the work or before it, and ignore known ids.",
  },
  id_header_trusted: {
    severity: "critical",
    problem: "It treats a delivery as new if only the event id in a header differs.",
    advice:
      "sha256= covers only the body. Take the id from the signed body (or the one that webhook-signature covers), and reject a request whose headers differ.",
  },
  refuses_older_events: {
    severity: "major",
    problem: "It rejects an event that occurred an hour ago.",
    advice:
      "Events arrive out of order and up to days late. Check the age of `sent_at`, which is when this attempt was signed, and not `timestamp`, which is when the event occurred.",
  },
  clock_too_strict: {
    severity: "minor",
    problem: "It rejects a delivery that was signed two minutes ago.",
    advice: "Accept signatures up to 300 seconds old, and synchronize the receiver's clock (NTP).",
  },
  body_reserialised: {
    severity: "critical",
    problem: "It verifies a body that was parsed and serialized again.",
    advice: `Numbers such as 1.0 and 2^60, escapes and white space do not survive that. ${RAW_BODY}`,
  },
  header_case: {
    severity: "major",
    problem: "It treats header names as case-sensitive.",
    advice:
      "Header names are case-insensitive (RFC 9110 5.1), and proxies change their case. Look them up regardless of case.",
  },
  ignores_second_signature: {
    severity: "minor",
    problem: "It checks only one signature.",
    advice:
      "During a rotation there are two. Accept if any of X-Service-Signature-256, X-Service-Signature-256-Alt and the entries of webhook-signature matches any of your secrets.",
  },
  large_body: {
    severity: "major",
    problem: "It fails with a body of 256 KiB.",
    advice: "Events have up to 256 KiB of data. Allow bodies of at least 512 KiB, and reject larger ones.",
  },
  slow_body: {
    severity: "major",
    problem: "It fails if the body arrives in pieces.",
    advice: "Read the complete body, in however many pieces it arrives, and allow 10 seconds for it.",
  },
  accepts_wrong_signature: {
    severity: "critical",
    problem: "It accepts a wrong signature.",
    advice: "Verify every request, and respond with 401 unless one of your secrets has signed it.",
  },
  accepts_unsigned: {
    severity: "critical",
    problem: "It accepts a request without a signature.",
    advice: "A missing signature is invalid: respond with 400.",
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
      "Respond with 401 to requests signed more than 300 seconds ago. Retries get a new signature, so they are never old.",
  },
  accepts_future: {
    severity: "major",
    problem: "It accepts a delivery that was signed 15 minutes in the future.",
    advice:
      "Respond with 401 to timestamps more than 60 seconds ahead. Otherwise they stay valid for longer than 300 seconds.",
  },
  timestamp_header_trusted: {
    severity: "critical",
    problem: "It accepts an old delivery with a new timestamp in the header.",
    advice:
      "sha256= covers only the body, so anyone who has seen a delivery can repeat it with a new header. Reject it if X-Service-Timestamp differs from `sent_at` in the signed body.",
  },
  wrong_refusal_status: {
    severity: "minor",
    problem: "It rejects a bad request with the wrong status, or with none.",
    advice:
      "Respond with 400 to malformed headers and 401 to wrong signatures. 5xx means that you failed, 410 that you want no more deliveries.",
  },
  broken_by_bad_requests: {
    severity: "critical",
    problem: "It no longer accepts a valid delivery after the bad requests.",
    advice: "Anyone can send bad requests, so they must not block, fill up or crash the receiver.",
  },
} as const satisfies Readonly<Record<string, FindingText>>;

export type FindingCode = keyof typeof FINDINGS;

/** How to make a receiver's processing visible to the grader. */
export const HOW_TO_OBSERVE =
  'Respond to events of type signet.grade with the JSON body {"processed":true} if you processed the event, and {"processed":false} if you ignored it as a duplicate.';

/** Faults in what others send: answers of receivers, host names, certificates, assertions and keys. */
import type { Mutant } from "./mutant.ts";

export const SENT: readonly Mutant[] = [
  {
    name: "unasked-continue-breaks-the-answer",
    breaks: "Interim responses before an answer do not change it (docs/egress.md)",
    file: "src/runtime/interim-responses.ts",
    find: "    responses.expect();\n",
    replace: "    void responses;\n",
    caughtBy: "test/integration/delivery/http-sender.test.ts",
  },
  {
    name: "retry-after-dates-of-one-form",
    breaks: "`Retry-After` is honoured in each form of RFC 9110 (docs/guarantees.md)",
    file: "src/lib/retry-after.ts",
    find: "FORMS.map((form) => form.exec(text)?.groups)",
    replace: "FORMS.slice(0, 1).map((form) => form.exec(text)?.groups)",
    caughtBy: "test/unit/webhooks/sending/http-response.test.ts",
  },
  {
    name: "common-name-names-a-host",
    breaks: "A certificate names its host as an alternative name (docs/egress.md)",
    file: "src/lib/server-identity.ts",
    find: '{ ...certificate, subject: { ...certificate.subject, CN: "" } }',
    replace: "certificate",
    caughtBy: "test/machine/lib/server-identity.test.ts",
  },
  {
    name: "joiners-and-emoji-are-no-names",
    breaks: "A host that DNS resolves may receive (docs/egress.md)",
    file: "src/webhooks/sending/url-rules.ts",
    find: "text !== label && domainToASCII(text) === label",
    replace: "text !== label && /^[\\p{L}\\p{N}\\p{M}-]+$/u.test(text) && domainToASCII(text) === label",
    caughtBy: "test/unit/webhooks/sending/a-label.test.ts",
  },
  {
    name: "assertion-for-others-too",
    breaks: "An assertion is for us alone (docs/mutual-tls.md)",
    file: "src/tokens/oauth/client-assertion.ts",
    find: "!receivers.every((name)",
    replace: "!receivers.some((name)",
    caughtBy: "test/unit/tokens/oauth/client-assertion.test.ts",
  },
  {
    name: "exponent-one-signs-everything",
    breaks: "A registered key has one owner (docs/mutual-tls.md)",
    file: "src/lib/public-key.ts",
    find: "e === 3n || (isLarge && e % 2n === 1n)",
    replace: "e === 3n || isLarge || e % 2n === 1n",
    caughtBy: "test/unit/lib/public-key.test.ts",
  },
  {
    name: "empty-trees-of-any-root",
    breaks: "A checkpoint of an empty log has one root (RFC 9162 section 2.1.1)",
    file: "src/lib/transparency-log/merkle-proof.ts",
    find: "return equalBytes(smaller.root, root) &&",
    replace: "return (smaller.size === 0 || equalBytes(smaller.root, root)) &&",
    caughtBy: "test/unit/compliance/merkle.test.ts",
  },
  {
    name: "query-without-a-body-is-malformed",
    breaks: "An unsupported method is a 405 with the supported ones (RFC 9110 section 15.5.6)",
    file: "src/http/plugins/error-handling.ts",
    find: "request.is404 && !(thrown",
    replace: "request.is404 && (thrown",
    caughtBy: "test/machine/http/server.test.ts",
  },
];

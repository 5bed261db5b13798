/** Code of a receiver with the endpoint's secret filled in: for Node, Python and Go, and a signed request with curl. */
import { html, type Html } from "#portal/html.ts";

interface Filled {
  readonly secret: string;
  /** Target URL of the endpoint. */
  readonly url: string;
}

interface Language {
  readonly key: string;
  readonly name: string;
  /** What to do with the code. */
  readonly note: string;
  readonly code: (filled: Filled) => string;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

const node = ({ secret }: Filled): string => `import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const SECRET = "${secret}";

function isSigned(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signatures = "" } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(time)) <= 300)) return false;
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const mac = createHmac("sha256", key).update(id + "." + time + ".").update(body).digest("base64");
  const expected = Buffer.from("v1," + mac);
  return signatures.split(" ").some((one) => {
    const given = Buffer.from(one);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (!isSigned(request.headers, body)) return response.writeHead(401).end();
  console.log(JSON.parse(body));
  response.writeHead(200).end();
}).listen(3000);
`;

const python = ({ secret }: Filled): string => `import base64, hashlib, hmac, time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = "${secret}"


def is_signed(headers, body):
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
        return False
    signed = f"{headers.get('webhook-id')}.{timestamp}.".encode() + body
    key = base64.b64decode(SECRET[len("whsec_"):])
    mac = hmac.new(key, signed, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(mac)
    given = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(expected, one) for one in given)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        signed = is_signed(self.headers, body)
        if signed:
            print(body.decode())
        self.send_response(200 if signed else 401)
        self.end_headers()


HTTPServer(("", 3000), Receiver).serve_forever()
`;

const go = ({ secret }: Filled): string => `package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const secret = "${secret}"

func isSigned(header http.Header, body []byte) bool {
	timestamp := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if age := time.Now().Unix() - seconds; err != nil || age > 300 || age < -300 {
		return false
	}
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(header.Get("webhook-id") + "." + timestamp + "."))
	mac.Write(body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, given := range strings.Split(header.Get("webhook-signature"), " ") {
		if hmac.Equal([]byte(given), expected) {
			return true
		}
	}
	return false
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || !isSigned(r.Header, body) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		log.Printf("%s", body)
	})
	log.Fatal(http.ListenAndServe(":3000", nil))
}
`;

const curl = ({ secret, url }: Filled): string => `URL=${quoted(url)}
SECRET='${secret}'
ID=evt_try_$$
TIME=$(date +%s)
BODY='{"id":"'$ID'","type":"endpoint.test","sent_at":'$TIME',"data":{}}'
KEY=$(printf %s "\${SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')
MAC=$(printf %s "$ID.$TIME.$BODY" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | openssl base64 -A)
curl -i "$URL" -H 'content-type: application/json' -H "webhook-id: $ID" \\
  -H "webhook-timestamp: $TIME" -H "webhook-signature: v1,$MAC" --data-binary "$BODY"
`;

const LANGUAGES: readonly Language[] = [
  { key: "node", name: "Node", note: "Save as receiver.mjs, then run node receiver.mjs.", code: node },
  { key: "python", name: "Python", note: "Save as receiver.py, then run python3 receiver.py.", code: python },
  { key: "go", name: "Go", note: "Save as receiver.go, then run go run receiver.go.", code: go },
  { key: "curl", name: "curl", note: "Sends a signed request to your receiver.", code: curl },
];

/** Returns the code in each language, by its key. */
export function receiverCode(filled: Filled): Readonly<Record<string, string>> {
  return Object.fromEntries(LANGUAGES.map(({ key, code }) => [key, code(filled)]));
}

/** Renders the code, with one tab for each language. The tabs are radio buttons, so that they need no script. */
export function receiverSection(filled: Filled): Html {
  return html`<section aria-labelledby="receiver">
    <h2 id="receiver">Your receiver</h2>
    <fieldset class="tabs">
      <legend class="hidden">Language</legend>
      <p class="tab-names">
        ${LANGUAGES.map(
          ({ key, name }, index) =>
            html`<label
              ><input
                type="radio"
                name="language"
                value="${key}"
                autocomplete="off"
                ${index === 0 && html`checked`}
              />
              ${name}</label
            >`,
        )}
      </p>
      ${LANGUAGES.map(
        ({ key, name, note, code }) =>
          html`<div class="tab ${key}">
            <p class="muted">${name}: ${note}</p>
            <pre tabindex="0" role="region" aria-label="Code for ${name}" data-copy>${code(filled)}</pre>
          </div>`,
      )}
    </fieldset>
  </section>`;
}

/** Chains whose authorities constrain names (RFC 5280 section 4.2.1.10), each with its verdict. */
import {
  authority,
  type ChainCase,
  client,
  der,
  extension,
  type Recipe,
  root,
  SPIFFE,
  three,
} from "./made-certificates.ts";

/** Tags of the kinds of names. */
const [MAIL, DNS, URI, IP, REGISTERED] = [0x81, 0x82, 0x86, 0x87, 0x88];
const organization = (name: string): Buffer =>
  der(0xa4, der(0x30, der(0x31, der(0x30, der(0x06, Buffer.of(0x55, 4, 10)), der(0x0c, name)))));

/** Name constraints that permit or exclude bases. */
function constraints(
  kind: "permitted" | "excluded",
  bases: readonly Buffer[],
  critical = true,
): Pick<Recipe, "extensions"> {
  const list = der(kind === "permitted" ? 0xa0 : 0xa1, ...bases.map((base) => der(0x30, base)));
  return extension("2.5.29.30", critical, der(0x30, list));
}

type Names = NonNullable<Recipe["names"]>;

function constrained(
  name: string,
  verdict: "ok" | "not trusted",
  bases: readonly Buffer[],
  leaf: Partial<Recipe> = {},
): ChainCase {
  return { name, verdict, build: three({ authority: constraints("permitted", bases), leaf }) };
}

/** A name beside the usual one, by which hubs know the leaf. */
const named = (type: Names[number]["type"], value: string): { readonly names: Names } => ({
  names: [
    { type, value },
    { type: "url", value: SPIFFE },
  ],
});
const dns = (value: string): { readonly names: Names } => named("dns", value);
const ip = (value: string): { readonly names: Names } => named("ip", value);
const mail = (value: string): { readonly names: Names } => named("email", value);
const TEN = Buffer.of(10, 0, 0, 0, 255, 0, 0, 0);

export const CONSTRAINED_CHAINS: readonly ChainCase[] = [
  constrained("a permitted URI", "ok", [der(URI, "clients.example.com")]),
  constrained("a permitted URI in other case", "ok", [der(URI, "Clients.EXAMPLE.com")]),
  constrained("a URI in a permitted domain", "ok", [der(URI, ".example.com")]),
  constrained("a URI of another host", "not trusted", [der(URI, "example.com")]),
  constrained("a URI of the domain itself", "not trusted", [der(URI, ".clients.example.com")]),
  constrained("one of two permitted URIs", "ok", [der(URI, "other.test"), der(URI, "clients.example.com")]),
  constrained(
    "a URI without a host",
    "not trusted",
    [der(URI, ".example.com")],
    named("url", "urn:example:com"),
  ),
  constrained("a permitted DNS name", "ok", [der(DNS, "example.com")], dns("a.b.example.com")),
  constrained("the DNS name itself", "ok", [der(DNS, "example.com")], dns("EXAMPLE.com")),
  constrained(
    "a DNS name that only ends so",
    "not trusted",
    [der(DNS, "example.com")],
    dns("notexample.com"),
  ),
  constrained(
    "a DNS name that only begins so",
    "not trusted",
    [der(DNS, "example.com")],
    dns("example.com.test"),
  ),
  constrained("any DNS name", "ok", [der(DNS, "")], dns("anything.test")),
  constrained("a common name like a host of no permitted domain", "not trusted", [der(DNS, "example.com")], {
    subject: "CN=client.test",
  }),
  constrained("a constraint of a kind that the leaf lacks", "ok", [der(DNS, "example.com")]),
  constrained("a permitted address", "ok", [der(IP, TEN)], ip("10.1.2.3")),
  constrained("another address", "not trusted", [der(IP, TEN)], ip("11.1.2.3")),
  constrained("an IPv6 address beside permitted IPv4 addresses", "not trusted", [der(IP, TEN)], ip("::1")),
  constrained("a permitted mail domain", "ok", [der(MAIL, "example.com")], mail("ops@Example.com")),
  constrained("a permitted mailbox", "ok", [der(MAIL, "ops@example.com")], mail("ops@example.com")),
  constrained("another mailbox", "not trusted", [der(MAIL, "ops@example.com")], mail("dev@example.com")),
  constrained(
    "a mailbox below a domain",
    "not trusted",
    [der(MAIL, "example.com")],
    mail("ops@a.example.com"),
  ),
  constrained("a permitted directory", "ok", [organization("Acme")], { subject: "O=Acme,CN=client" }),
  constrained("the same directory in other words", "ok", [organization("acme  corp")], {
    subject: "O=ACME Corp,CN=client",
  }),
  constrained("another directory", "not trusted", [organization("Acme")], { subject: "O=Evil,CN=client" }),
  constrained("a kind of names that nobody compares", "not trusted", [der(REGISTERED, Buffer.of(0x2a, 3))], {
    names: [{ type: "id", value: "1.2.3" }],
  }),
  {
    name: "an excluded URI",
    verdict: "not trusted",
    build: three({ authority: constraints("excluded", [der(URI, ".example.com")]) }),
  },
  {
    name: "another URI than the excluded one",
    verdict: "ok",
    build: three({ authority: constraints("excluded", [der(URI, ".example.org")]) }),
  },
  {
    name: "constraints that are not critical",
    verdict: "not trusted",
    build: three({ authority: constraints("permitted", [der(URI, "other.test")], false) }),
  },
  {
    name: "constraints of the root",
    verdict: "not trusted",
    build: three({ root: constraints("permitted", [der(URI, "other.test")]) }),
  },
  {
    name: "constraints of two authorities, of which one is broken",
    verdict: "not trusted",
    build: three({
      root: constraints("permitted", [der(URI, ".example.com")]),
      authority: constraints("permitted", [der(URI, "a.example.com")]),
    }),
  },
  {
    name: "an intermediate outside of its root's directory",
    verdict: "not trusted",
    build: three({
      root: constraints("permitted", [organization("Acme")]),
      authority: { subject: "O=Evil" },
      leaf: { subject: "O=Acme,CN=client" },
    }),
  },
  {
    name: "a constraint with a distance",
    verdict: "not trusted",
    build: three({
      authority: extension(
        "2.5.29.30",
        true,
        der(0x30, der(0xa0, der(0x30, der(URI, "clients.example.com"), der(0x80, Buffer.of(1))))),
      ),
    }),
  },
  {
    name: "a second authority without the broken constraint",
    verdict: "ok",
    openSsl: "looks at one path",
    build: async () => {
      const top = await root();
      const first = await authority(top, constraints("permitted", [der(URI, "other.test")]));
      const second = await authority(top, { key: first });
      return { leaf: await client(first), sent: [first, second], anchors: [top] };
    },
  },
  {
    name: "two authorities of two names",
    verdict: "ok",
    build: async () => {
      const top = await root(constraints("permitted", [der(URI, ".example.com")]));
      const middle = await authority(top);
      const low = await authority(middle, {
        subject: "CN=Second",
        ...constraints("permitted", [der(URI, "clients.example.com")]),
      });
      return { leaf: await client(low), sent: [low, middle], anchors: [top] };
    },
  },
];

/** A database's URL leads to what its author meant, or is refused with the part that is wrong and none of the password. */
import { describe, expect, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { postgresUrl, targetOf } from "#config/postgres-url.ts";

const DATABASE_URLS = [
  "SIGNET_DATABASE_URL",
  "SIGNET_DATABASE_DIRECT_URL",
  "SIGNET_DATABASE_ADMIN_URL",
  "SIGNET_EDGE_DATABASE_URL",
  "SIGNET_HOME_DATABASE_URL",
];

describe("a URL of PostgreSQL", () => {
  test.for<[url: string, address: string, user: string, database: string]>([
    ["postgres://signet:secret@db/signet", "db:5432", "signet", "signet"],
    ["postgresql://signet@db.example.com:6432/signet/", "db.example.com:6432", "signet", "signet"],
    ["postgres://signet:p%23w%2F%3F%25@db/signet\n", "db:5432", "signet", "signet"],
    ["postgres://a%40b:p@ss@db:1/x", "db:1", "a@b", "x"],
    ["postgres://signet@[::1]:5433/signet", "[::1]:5433", "signet", "signet"],
    ["postgres://signet@%2Frun%2Fpostgresql/signet", "/run/postgresql", "signet", "signet"],
    ["postgres://signet@localhost/signet?host=/run/postgresql", "/run/postgresql", "signet", "signet"],
    ["postgres://signet@db", "db:5432", "signet", "signet"],
    ["postgres://signet@db/s?sslmode=verify-full&application_name=x&port=1", "db:1", "signet", "s"],
  ])("%s leads to its parts", ([url, address, user, database]) => {
    expect(targetOf(postgresUrl(url))).toMatchObject({ address, user, database });
  });

  test.for<[url: string, part: RegExp]>([
    ["mysql://signet:secret@db/signet", /starts with postgres:\/\//],
    ["signet:secret@db/signet", /starts with postgres:\/\//],
    ["postgres://signet:p@secret/w#rd?@postgres:5432/signet", /fragment/],
    ["postgres://signet:12#secret@db/signet", /fragment/],
    ["postgres://signet:secret#@db/signet", /fragment/],
    ["postgres://signet:12/secret@db/signet", /@ after its first \//],
    ["postgres://signet:secret/w@db/signet", /@ after its first \//],
    ["postgres://signet:12?secret@db/signet", /@ after its first/],
    ["postgres://signet:secret%w@db/signet", /% that is not an escape/],
    ["postgres://signet:secret%ff@db/signet", /% that is not an escape/],
    ["postgres://signet:sec ret@db/signet", /white space/],
    ["postgres://signet:secret@db:54x32/signet", /port that is not a number/],
    ["postgres://signet:secret@db:70000/signet", /port that is not a number/],
    ["postgres://signet:secret@db/signet?port=x", /port that is not a number/],
    ["postgres://signet:secret@h1:5432,h2:5432/signet", /one host/],
    ["postgres://signet:secret@db/signet?host=h1,h2", /one host/],
    ["postgres://signet:secret@::1:5432/signet", /IPv6/],
    ["postgres://signet:secret@/signet?host=/run/postgresql", /a socket/],
    ["postgres:///signet?host=/run/postgresql&user=signet&password=secret", /in their places/],
    ["postgres://db/signet", /in their places/],
    ["postgres://signet@db/signet?password=secret", /in their places/],
    ["postgres://signet:secret@db/a/b", /\/ in its database/],
    ["postgres://signet:secret@db/signet?channel_binding=require", /nothing reads, channel_binding/],
    ["postgres://signet:secret@d<b/signet", /host/],
  ])("%s is refused", ([url, part]) => {
    expect(() => postgresUrl(url)).toThrow(part);
    expect(() => postgresUrl(url)).not.toThrow(/secret/);
  });

  test("says for a password how to percent-encode it", () => {
    for (const url of ["p#w@", "p/w@", "p?w@", "p%w@", "p w@"]) {
      expect(() => postgresUrl(`postgres://signet:${url}db/signet`)).toThrow(/percent-encode.*%23.*%2F/);
    }
  });

  test.for(DATABASE_URLS)("is checked in %s", (variable) => {
    const environment = { SIGNET_ENV: "development", [variable]: "postgres://signet:p#w@db/signet" };
    expect(() => loadConfig(environment)).toThrow(`${variable} has a fragment`);
  });
});

/** The official release of the Temporal CLI, verified against digests in this source. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { promisify } from "node:util";
import { Agent, EnvHttpProxyAgent, fetch as undiciFetch } from "undici";
import type { Environment } from "#config/config.ts";
import { messageOf } from "#runtime/thrown.ts";

const run = promisify(execFile);

const PROGRESS_MS = 3_000;
/** Timeout of a connected host that sends nothing. */
const SILENCE_MS = 30_000;
const LARGEST_BYTES = 300 * 1024 * 1024;

/** The used part of `fetch`; redirects are followed. */
export type Fetch = (
  url: string,
  init: { readonly signal: AbortSignal | null },
) => Promise<{ readonly ok: boolean; readonly status: number; readonly body: unknown }>;

export interface TemporalRelease {
  /** Addresses of the archive, best first; `platform` is `linux_amd64`. */
  readonly urls: (version: string, platform: string) => readonly string[];
  /** SHA-256 of each platform's archive; unlisted platforms are rejected. */
  readonly sha256: Readonly<Record<string, string>>;
}

/** The archives of https://github.com/temporalio/cli/releases/tag/v1.9.1 and their digests. */
export const OFFICIAL_RELEASE: TemporalRelease = {
  urls: (version, platform) => {
    const [os = "", arch = ""] = platform.split("_");
    return [
      `https://github.com/temporalio/cli/releases/download/v${version}/temporal_cli_${version}_${platform}.tar.gz`,
      `https://temporal.download/cli/archive/v${version}?platform=${os}&arch=${arch}`,
    ];
  },
  sha256: {
    linux_amd64: "09a0326a51db84d02735e53542b9ebd8c4758daf47482a9ab0abce15844e60d5",
    linux_arm64: "6c57c352d52fc3df34412376fd9ba6f74b7e3ace8e426e6cba8600156d36a145",
    darwin_amd64: "48cdd6c84c56e27ae8e4d9a47052b89289a9c552dee029b49dd312c6fb72873f",
    darwin_arm64: "41e0425378fcb4fb5766340b97435e20fe47bbff2d7bf644ec2d51f7662b7c56",
  },
};

export interface DownloadOptions {
  readonly version: string;
  /** Target directory of the program, `temporal`. */
  readonly directory: string;
  readonly environment: Environment;
  /** Called every few seconds with what is under way, for people. */
  readonly progress: (text: string) => void;
  readonly connectTimeoutMs: number;
  readonly release: TemporalRelease;
  readonly fetch: Fetch | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Returns the release's name of this platform, `linux_amd64`. */
export function releasePlatform(): string {
  return `${process.platform}_${process.arch === "x64" ? "amd64" : process.arch}`;
}

function defaultFetch(environment: Environment, connectTimeoutMs: number): Fetch {
  const limits = {
    allowH2: false,
    connect: { timeout: connectTimeoutMs },
    headersTimeout: SILENCE_MS,
    bodyTimeout: SILENCE_MS,
  };
  const proxy = environment["https_proxy"] ?? environment["HTTPS_PROXY"];
  const noProxy = environment["no_proxy"] ?? environment["NO_PROXY"] ?? "";
  const dispatcher =
    proxy === undefined || proxy === ""
      ? new Agent(limits)
      : new EnvHttpProxyAgent({ ...limits, httpsProxy: proxy, noProxy });
  return async (url, { signal }) => await undiciFetch(url, { signal, dispatcher });
}

/** Returns the useful message, often one or two causes down: `fetch failed` says nothing. */
function innermost(error: unknown): string {
  let current = error;
  while (current instanceof Error && current.cause instanceof Error) {
    current = current.cause;
  }
  return messageOf(current);
}

/** Saves a URL's content and returns its digest. */
async function save(url: string, file: string, fetch: Fetch, options: DownloadOptions): Promise<string> {
  const response = await fetch(url, { signal: options.signal ?? null });
  if (!response.ok || response.body === null) {
    throw new Error(`status ${response.status}`);
  }
  const hash = createHash("sha256");
  let bytes = 0;
  let told = performance.now();
  const meter = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      hash.update(chunk);
      if (performance.now() - told > PROGRESS_MS) {
        told = performance.now();
        options.progress(`downloading the Temporal CLI, ${Math.round(bytes / 1_048_576)} MiB`);
      }
      done(bytes > LARGEST_BYTES ? new Error("larger than any release") : null, chunk);
    },
  });
  await pipeline(Readable.fromWeb(response.body as ReadableStream), meter, createWriteStream(file));
  return hash.digest("hex");
}

/**
 * Downloads the release of this platform and unpacks its `temporal`.
 *
 * @throws Error with one line per tried address; no unverified file remains
 */
export async function downloadTemporal(options: DownloadOptions): Promise<void> {
  const { version, directory, release, environment, connectTimeoutMs } = options;
  const platform = releasePlatform();
  const expected = release.sha256[platform];
  if (expected === undefined) {
    throw new Error(`no digest is known for ${platform}, and unverified programs are not run`);
  }
  const fetch = options.fetch ?? defaultFetch(environment, connectTimeoutMs);
  const archive = join(directory, "archive.tar.gz");
  const failures: string[] = [];
  for (const url of release.urls(version, platform)) {
    options.progress(`downloading the Temporal CLI from ${new URL(url).host}`);
    try {
      const digest = await save(url, archive, fetch, options);
      if (digest !== expected) {
        throw new Error(`refused: its SHA-256 is ${digest}, not ${expected}`);
      }
      await run("tar", ["-xzf", archive, "-C", directory, "temporal"]);
      return;
    } catch (error) {
      options.signal?.throwIfAborted();
      failures.push(`${url}: ${innermost(error)}`);
    } finally {
      await rm(archive, { force: true });
    }
  }
  throw new Error(failures.join("; "));
}

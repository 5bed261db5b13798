/** The route table's file, read at the start and again when it or a referenced file changes. */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { messageOf } from "#runtime/thrown.ts";
import { watchFiles } from "#runtime/watched-files.ts";
import { readRouteTable, type RouteTable, type RouteTableError } from "./route-table.ts";

const BYTES_MAX = 1_048_576;

export interface RouteFileOptions {
  readonly path: string;
  readonly environment: (name: string) => string | undefined;
  /** Whether routes are only checked. */
  readonly checksOnly: boolean;
  readonly log: Logger;
}

/**
 * Reads the file. References are relative to its directory.
 *
 * @param onPath called with each file that the table is read from, also if that fails
 * @throws RouteTableError
 */
export function readRouteFile(
  path: string,
  { environment, checksOnly }: Pick<RouteFileOptions, "environment" | "checksOnly">,
  onPath: (path: string) => void = () => undefined,
): RouteTable {
  onPath(path);
  const bytes = readFileSync(path);
  if (bytes.length > BYTES_MAX) {
    throw new Error(`${path} is larger than ${BYTES_MAX} bytes`);
  }
  return readRouteTable(bytes, {
    environment,
    checksOnly,
    file: (reference) => {
      const found = resolve(dirname(path), reference);
      onPath(found);
      return readFileSync(found, "utf8");
    },
  });
}

function problemsOf(error: unknown): readonly string[] {
  return (error as Partial<RouteTableError>).problems ?? [messageOf(error)];
}

/** Reads and watches the file. */
export class RouteFile {
  readonly #options: RouteFileOptions;
  readonly #onChange: (table: RouteTable) => Promise<void>;
  /** Those of the newest table, also of a refused one: one of them may be its fault. */
  #paths = new Set<string>();
  #table: RouteTable;
  #problems: readonly string[] = [];
  #reading: Promise<boolean> = Promise.resolve(true);
  #unwatch = (): void => {};

  private constructor(options: RouteFileOptions, onChange: (table: RouteTable) => Promise<void>) {
    this.#options = options;
    this.#onChange = onChange;
    this.#table = this.#read();
  }

  /**
   * @param onChange applies a new table; never called concurrently
   * @throws RouteTableError if the file is unusable at the start
   */
  static async open(
    options: RouteFileOptions,
    onChange: (table: RouteTable) => Promise<void>,
  ): Promise<RouteFile> {
    const opened = new RouteFile(options, onChange);
    opened.#unwatch = await watchFiles(
      () => [...opened.#paths],
      async () => await opened.reload(),
    );
    return opened;
  }

  get table(): RouteTable {
    return this.#table;
  }

  /** Why the newest file is not in use; empty if it is. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Reloads the file. If it is unusable, the current table stays in use. @returns whether the newest one is */
  async reload(): Promise<boolean> {
    this.#reading = this.#reading.then(async () => await this.#use());
    return await this.#reading;
  }

  close(): void {
    this.#unwatch();
  }

  #read(): RouteTable {
    const { path } = this.#options;
    const paths = new Set([path]);
    this.#paths = paths;
    return readRouteFile(path, this.#options, (read) => paths.add(read));
  }

  async #use(): Promise<boolean> {
    const { log } = this.#options;
    try {
      const next = this.#read();
      await this.#onChange(next);
      this.#table = next;
      this.#note([]);
      log.info({ routes: next.length }, "route table reloaded");
      return true;
    } catch (error) {
      const found = problemsOf(error);
      if (found.join() !== this.#problems.join()) {
        log.error({ problems: found }, "new route table is unusable; keeping the current one");
      }
      this.#note(found);
      return false;
    }
  }

  #note(found: readonly string[]): void {
    this.#problems = found;
    metrics.edgeRoutesRefused.set(found.length === 0 ? 0 : 1);
  }
}

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
  /** Path of the file; absent for an empty table. */
  readonly path: string | undefined;
  readonly environment: (name: string) => string | undefined;
  /** Whether routes are only checked. */
  readonly checksOnly: boolean;
  readonly log: Logger;
}

export interface RouteFile {
  readonly table: RouteTable;
  /** Why the newest file is not in use; empty if it is. */
  readonly problems: readonly string[];
  /** Reloads the file. If it is unusable, the current table stays in use. */
  reload(): Promise<void>;
  close(): void;
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

/**
 * Reads and watches the file.
 *
 * @param onChange applies a new table; never called concurrently
 * @throws RouteTableError if the file is unusable at the start
 */
export async function openRouteFile(
  options: RouteFileOptions,
  onChange: (table: RouteTable) => Promise<void>,
): Promise<RouteFile> {
  const { path, log } = options;
  if (path === undefined) {
    return { table: [], problems: [], reload: async () => {}, close: () => {} };
  }
  let paths = new Set<string>([path]);
  let current = readRouteFile(path, options, (read) => paths.add(read));
  let problems: readonly string[] = [];
  let reading: Promise<boolean> = Promise.resolve(true);

  function note(found: readonly string[]): void {
    problems = found;
    metrics.edgeRoutesRefused.set(found.length === 0 ? 0 : 1);
  }

  async function read(file: string): Promise<boolean> {
    paths = new Set([file]);
    try {
      const next = readRouteFile(file, options, (read) => paths.add(read));
      await onChange(next);
      current = next;
      note([]);
      log.info({ routes: next.length }, "route table reloaded");
      return true;
    } catch (error) {
      const found = problemsOf(error);
      if (found.join() !== problems.join()) {
        log.error({ problems: found }, "new route table is unusable; keeping the current one");
      }
      note(found);
      return false;
    }
  }

  const reload = async (): Promise<boolean> => {
    reading = reading.then(async () => await read(path));
    return await reading;
  };
  // Also the files of a refused table, one of which may be its fault.
  const unwatch = await watchFiles(() => [...paths], reload);
  return {
    get table() {
      return current;
    },
    get problems() {
      return problems;
    },
    reload: async () => void (await reload()),
    close: unwatch,
  };
}

/** The route table's file, read at the start and again when it or a referenced file changes. */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Logger } from "../observability/logger.ts";
import { messageOf } from "../runtime/thrown.ts";
import { type WatchedFiles, watchFiles } from "../runtime/watched-files.ts";
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

interface ReadFile {
  readonly table: RouteTable;
  /** The files that it was read from. */
  readonly paths: readonly string[];
}

/** Reads the file. References are relative to its directory. @throws RouteTableError */
function readRouteFile(
  path: string,
  { environment, checksOnly }: Pick<RouteFileOptions, "environment" | "checksOnly">,
): ReadFile {
  const paths = [path];
  const bytes = readFileSync(path);
  if (bytes.length > BYTES_MAX) {
    throw new Error(`${path} is larger than ${BYTES_MAX} bytes`);
  }
  const table = readRouteTable(bytes, {
    environment,
    checksOnly,
    file: (reference) => {
      const found = resolve(dirname(path), reference);
      paths.push(found);
      return readFileSync(found, "utf8");
    },
  });
  return { table, paths };
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
  let current = readRouteFile(path, options);
  let problems: readonly string[] = [];
  let reading: Promise<void> = Promise.resolve();

  async function read(file: string): Promise<void> {
    try {
      const next = readRouteFile(file, options);
      await onChange(next.table);
      current = next;
      problems = [];
      log.info({ routes: next.table.length }, "route table reloaded");
    } catch (error) {
      problems = problemsOf(error);
      log.error({ problems }, "new route table is unusable; keeping the current one");
    }
  }

  const reload = async (): Promise<void> => {
    reading = reading.then(async () => await read(path));
    await reading;
  };
  const watched: WatchedFiles = await watchFiles(
    () => current.paths,
    () => void reload(),
  );
  return {
    get table() {
      return current.table;
    },
    get problems() {
      return problems;
    },
    reload,
    close: () => watched.close(),
  };
}

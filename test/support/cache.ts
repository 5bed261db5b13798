/** Where programs and packages for tests stay between runs. */
import { homedir } from "node:os";
import { join } from "node:path";

/** SIGNET_CACHE. */
export const CACHE = process.env["SIGNET_CACHE"] ?? join(homedir(), ".cache", "signet");

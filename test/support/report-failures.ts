/** Vitest's set-up before each test file: its failures print the last requests, and where the log is. */
import { reportFailures } from "./failure-report.ts";

reportFailures();

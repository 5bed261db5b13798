import { homedir } from "node:os";

/** Debian's home of users that have none. */
const NONE = "/nonexistent";

/** Returns the user's home. A container's user may have neither HOME nor an entry in /etc/passwd. */
export function homeDirectory(): string {
  try {
    return homedir();
  } catch {
    return NONE;
  }
}

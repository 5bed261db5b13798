/** Returns the CPU time of this process, in milliseconds. It stands still while the machine does. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Groups members by their carrier. A carrier is started and checked with all of its members. */
export function byCarrier<T extends { readonly carrier: string }>(members: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const member of members) {
    const group = groups.get(member.carrier);
    if (group === undefined) {
      groups.set(member.carrier, [member]);
    } else {
      group.push(member);
    }
  }
  return groups;
}

/** How a cost grows with the work: the exponent of a power law, and how large it may be. */

/** A size and what it cost, both above 0. */
export type Point = readonly [size: number, cost: number];

/** Whether a cost stays as it is while the work grows, or grows as the work does. */
export type Growth = "flat" | "linear";

/**
 * The largest exponent of a cost that fits its promise. "Flat" lets ten times the work cost a quarter more: an index gets a
 * level, caches hold less. "Linear" lets a unit cost a quarter more. Work that is read again for each unit has 1 or 2.
 */
export const EXPONENT_MAX: Readonly<Record<Growth, number>> = { flat: 0.1, linear: 1.1 };

/** Returns the exponent of the power law through the points: the slope of a least-squares line of their logarithms. */
export function exponentOf(points: readonly Point[]): number {
  const logs = points.map(([size, cost]): Point => [Math.log(size), Math.log(cost)]);
  const mean = (of: 0 | 1): number => logs.reduce((sum, point) => sum + point[of], 0) / logs.length;
  const [x, y] = [mean(0), mean(1)];
  const above = logs.reduce((sum, [size, cost]) => sum + (size - x) * (cost - y), 0);
  return above / logs.reduce((sum, [size]) => sum + (size - x) ** 2, 0);
}

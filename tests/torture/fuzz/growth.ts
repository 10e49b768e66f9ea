/** What takes time by the square of its input, or worse, shows by ten times the input. */

/** The square of ten. */
export const STEEP = 100;

/**
 * How many times as long a call takes whose input is ten times as long; the least of several measurements, because a
 * machine is now and then busy, and never always at the wrong moment.
 */
export function growthOf(make: (length: number) => () => unknown, length = 20_000): number {
  let growth = Infinity;
  for (let tries = 0; tries < 6 && growth >= STEEP; tries++) {
    const [short, long] = [make(length), make(10 * length)].map((call) => {
      let least = Infinity;
      for (let i = 0; i < 10; i++) {
        const began = performance.now();
        call();
        least = Math.min(least, performance.now() - began);
      }
      return Math.max(least, 0.02); // what a clock can tell
    });
    growth = Math.min(growth, long / short);
  }
  return growth;
}

/*
 * Many intervals at once. Of intervals of 95 % some miss the truth, by right: of 26 such cases, all are inside only 26 times
 * in 100. So a whole table is judged in two ways, both fixed before it is made: by the number of intervals of 95 % that
 * contain the truth (binomial), and by intervals that are so much wider that *all* of them do in 95 of 100 tables (Šidák
 * 1967; it is exact where the cases draw independently).
 */

const JOINT = 0.95;
const STEPS = 2_000;
const FAR = 10;

/** What each of `count` independent intervals has to contain the truth with, so that all do with 95 %. */
export function sidakShare(count: number): number {
  return JOINT ** (1 / count);
}

/** The quantile of the normal distribution between which and its negative such a share lies. */
export function quantileOf(share: number): number {
  let [low, high] = [0, FAR];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (shareWithin(middle) < share) low = middle;
    else high = middle;
  }
  return high;
}

/** The share of a normal distribution within so many standard deviations, by Simpson's rule. */
function shareWithin(z: number): number {
  let sum = 0;
  for (let i = 0; i <= STEPS; i++) {
    const x = (z * i) / STEPS;
    sum += Math.exp((-x * x) / 2) * (i === 0 || i === STEPS ? 1 : i % 2 === 1 ? 4 : 2);
  }
  return (2 * sum * z) / (3 * STEPS * Math.sqrt(2 * Math.PI));
}

/** How likely it is that at most so many of `count` intervals contain the truth, if each does with 95 %. */
export function chanceOfAtMost(inside: number, count: number): number {
  let [term, sum] = [(1 - JOINT) ** count, 0];
  for (let k = 0; k <= inside; k++) {
    sum += term;
    term *= ((count - k) / (k + 1)) * (JOINT / (1 - JOINT));
  }
  return Math.min(1, sum);
}

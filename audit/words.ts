/** A time in words: `10 s`, `730 ms`. */
export function seconds(ms: number): string {
  return ms % 1000 === 0 || ms >= 10_000 ? `${Math.round(ms / 100) / 10} s` : `${Math.round(ms)} ms`;
}

/** Copies a state. Of a few words, this is quicker than `set`. */
export function copy(from: Uint16Array, to: Uint16Array): void {
  for (let i = 0; i < to.length; i++) to[i] = from[i] ?? 0;
}

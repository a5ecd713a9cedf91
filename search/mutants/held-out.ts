/**
 * Whether a planted bug is one of the third, drawn by its name alone, that is never used for tuning the search: how soon
 * those are caught says what the search is worth for bugs that nobody has thought of.
 */
export function isHeldOut(id: string): boolean {
  // FNV-1a: the draw must not change with the registry, nor with anything else here.
  let hash = 0x811c9dc5;
  for (const letter of id) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193);
  return (hash >>> 0) % ONE_IN === 0;
}

const ONE_IN = 3;

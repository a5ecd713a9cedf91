/** Nobody mistypes a name into a text of this length, and comparing takes its square. */
const LONGEST_WORD = 200;

/**
 * The candidate that `word` was probably meant to be: at most a third of it mistyped (letter case counts for nothing),
 * or one of the two begins with the other. Of several, one with the same first letter, else the first.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > LONGEST_WORD) return undefined;
  const typed = word.toLowerCase();
  let best: string | undefined;
  let least = Math.floor(Math.max(3, word.length) / 3) + 1;
  for (const candidate of candidates) {
    const edits = distance(typed, candidate.toLowerCase());
    // Of two that are equally near, the one that begins with the same letter: "S3" is "S03" and not "F3".
    const closer = edits === least && best?.[0]?.toLowerCase() !== typed[0] && candidate[0]?.toLowerCase() === typed[0];
    if (edits < least || (best !== undefined && closer)) {
      best = candidate;
      least = edits;
    }
  }
  return best ?? candidates.find((candidate) => isPrefix(typed, candidate.toLowerCase()));
}

/** Longer lists are cut: an error is one sentence. */
const MOST_NAMED = 12;

/** The end of an error message on a word that is none of `candidates`: the nearest of them, or all. */
export function meant(word: string, candidates: readonly string[], all: string): string {
  if (candidates.length === 0) return 'there are none';
  const found = nearest(word, candidates);
  if (found !== undefined) return `did you mean ${JSON.stringify(found)}?`;
  return `${all} ${candidates.slice(0, MOST_NAMED).join(', ')}${candidates.length > MOST_NAMED ? ', …' : ''}`;
}

const SHORTEST_PREFIX = 3;

function isPrefix(a: string, b: string): boolean {
  return Math.min(a.length, b.length) >= SHORTEST_PREFIX && (a.startsWith(b) || b.startsWith(a));
}

/** Levenshtein distance, by rows. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const substituted = (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1);
      next.push(Math.min(substituted, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

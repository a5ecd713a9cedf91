/* How long the work takes, by what comments say: `// a big file takes 20 to 40 minutes`. */

const COMMENT = /\/\/([^\n]*(?:\n[^\S\n]*\/\/[^\n]*)*)|\/\*([\s\S]*?)\*\//g;

const WORDS: Readonly<Record<string, number>> = {
  a: 1,
  an: 1,
  one: 1,
  two: 2,
  three: 3,
  four: 4,
  five: 5,
  six: 6,
  seven: 7,
  eight: 8,
  nine: 9,
  ten: 10,
  fifteen: 15,
  twenty: 20,
  thirty: 30,
  forty: 40,
  fifty: 50,
  sixty: 60,
  several: 3,
  many: 5,
};
const NUMBER = String.raw`(?:\d+(?:\.\d+)?|${Object.keys(WORDS).join('|')})`;
const UNIT = String.raw`(seconds?|secs?|s|minutes?|mins?|hours?|h)\b`;
const ABOUT = String.raw`(?:(?:up to|about|around|roughly|some|at least|over|more than|easily|often|sometimes|between|from|well over|the better part of)\s+)*`;

/** `takes up to ten minutes`, `needs 30 to 90 seconds`, `take minutes`; `is 20 to 40 seconds with Whisper`, with two numbers alone. */
const TAKES = new RegExp(
  String.raw`\b(?:tak(?:es?|ing)|took|runs? for|lasts|needs)\s+${ABOUT}(?:${NUMBER}(?:\s*(?:-|–|to|or|and)\s*|\s+(?:seconds?|minutes?)\s+to\s+))?(${NUMBER})?\s*${UNIT}`,
  'gi',
);
const IS = new RegExp(
  String.raw`\b(?:is|are)\s+${ABOUT}${NUMBER}\s*(?:-|–|to)\s*(${NUMBER})\s*${UNIT}(?=\s+(?:with|per|each|on|for)\b)`,
  'gi',
);

/** Parts of an hour. */
const FRACTIONS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:a\s+)?(?:good\s+|full\s+)?quarter of an hour\b/gi, '15 minutes'],
  [/\b(?:a\s+good\s+|a\s+full\s+)?half an hour\b/gi, '30 minutes'],
];

/** What is several of them where no number is said. */
const SOME = 2;

function unitMs(unit: string): number {
  return /^h/i.test(unit) ? 3_600_000 : /^m/i.test(unit) ? 60_000 : 1_000;
}

/** What comments say that something takes. */
export interface SaidTime {
  /** The sentence that says so. */
  readonly sentence: string;
  readonly ms: number;
}

/** The longest time that comments say something takes; `null` where they say none. */
export function longestSaid(texts: readonly string[]): SaidTime | null {
  const comments = texts.flatMap((text) =>
    [...text.matchAll(COMMENT)].map(([, line = '', block = '']) => line + block),
  );
  const sentences = comments.flatMap((it) => it.replace(/\s*\n\s*(?:\/\/|\*)?\s*/g, ' ').split(/(?<=[.!?;])\s+/));
  const said = sentences.flatMap((sentence) => {
    const inMinutes = FRACTIONS.reduce((text, [fraction, minutes]) => text.replace(fraction, minutes), sentence);
    return [...inMinutes.matchAll(TAKES), ...inMinutes.matchAll(IS)].map(([text, number, unit = '']) => {
      const count = number === undefined ? SOME : (WORDS[number.toLowerCase()] ?? Number(number));
      return { text, sentence: sentence.trim().replace(/\.$/, ''), ms: count * unitMs(unit) };
    });
  });
  // `takes as` is no time.
  const times: readonly SaidTime[] = said.filter(({ text }) => /\w{3}$|\d\s*[sh]$/i.test(text));
  return times.reduce<SaidTime | null>((most, it) => (it.ms > (most?.ms ?? 0) ? it : most), null);
}

/**
 * What a terminal obeys or nobody sees: control characters (C0, C1), formats (marks of direction among them),
 * separators of lines, halves of pairs.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * A text as it may be shown to people: one line in which every character can be seen, cut in its middle if it is longer
 * than `longest`. What cannot be shown is written as in JSON, so that this changes nothing when it is done twice.
 *
 * @param longest - Characters of the result at most; default: no limit.
 */
export function printable(text: string, longest: number = Number.POSITIVE_INFINITY): string {
  // What is beyond the limit on both sides is never looked at: a text may have millions of characters.
  if (text.length > 2 * longest) return cut(text.slice(0, longest), text.slice(-longest), longest);
  const whole = text.replace(UNPRINTABLE, visible);
  return whole.length > longest ? cut(text, text, longest) : whole;
}

/** Plain text, which most is: found much faster. */
const OTHER_THAN_PLAIN = /[^\n\t -~]/;

/** The same for a text that is set out in lines: nothing is cut, and ends of lines and tabs stay. */
export function printableLines(text: string): string {
  if (!OTHER_THAN_PLAIN.test(text)) return text;
  return text.replace(UNPRINTABLE, (it) => (it === '\n' || it === '\t' ? it : visible(it)));
}

function visible(character: string): string {
  return SHORT[character] ?? Array.from({ length: character.length }, (_, i) => unit(character.charCodeAt(i))).join('');
}

function unit(code: number): string {
  return `\\u${code.toString(16).padStart(4, '0')}`;
}

/** The beginning of one text and the end of another, with whole characters. */
function cut(start: string, end: string, longest: number): string {
  const half = Math.max(0, longest - 1) / 2;
  const head = fitting([...start], Math.ceil(half));
  const tail = fitting([...end].reverse(), Math.floor(half)).reverse();
  return `${head.join('')}…${tail.join('')}`;
}

/** As many characters as fit, each as it is shown. */
function fitting(characters: readonly string[], room: number): string[] {
  const taken: string[] = [];
  let left = room;
  for (const character of characters) {
    const shown = character.replace(UNPRINTABLE, visible);
    left -= shown.length;
    if (left < 0) break;
    taken.push(shown);
  }
  return taken;
}

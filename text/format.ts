import { printable } from './printable.js';

/** `1 %`, `0.5 %`. */
export function formatPercent(ppm: number): string {
  return `${Number((ppm / 10_000).toFixed(4))} %`;
}

/** A whole number with its thousands in groups. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ' ');
}

/** `1 run`, `2 runs`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** `one`, `one and two`, `one, two and three`. */
export function formatList(items: readonly string[], word = 'and'): string {
  if (items.length < 2) return items.join('');
  return `${items.slice(0, -1).join(', ')} ${word} ${items.at(-1) ?? ''}`;
}

/** A space within `1 911 votes` or `1 %` is none to break a line at. */
const BREAK = / (?!%)(?<!\d (?=\d{3}(?!\d)))/;

/** Breaks a text at its spaces so that no line is longer than `width`; all of it can be seen. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const whole of text.replace(/[\t\n\v\f\r]+/g, ' ').split(BREAK)) {
    const word = printable(whole, width);
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** Cuts a text that is longer than `width`, and shows that it was cut; what is left can be seen. */
export function truncate(given: string, width: number): string {
  const text = printable(given);
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

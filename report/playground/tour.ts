/*
 * The tour in the page is the one in docs/tour.md: its stops, what it says there, and its commands as steps.
 */

/** Something that a stop of the tour shows: a scenario, with mitigations or without, or a map. */
export interface TourStep {
  readonly scenario: string;
  readonly with: readonly string[];
  /** The words of a sweep; empty for a scenario. */
  readonly map: readonly string[];
  /** What is seen. */
  readonly says: string;
}

/** One stop of the tour. */
export interface TourStop {
  readonly title: string;
  readonly texts: readonly string[];
  readonly steps: readonly TourStep[];
}

/** Reads the stops of a tour that is written in Markdown: each has a heading, paragraphs, and commands with comments. */
export function tourOf(markdown: string): TourStop[] {
  const [intro = '', ...sections] = markdown.split(/^## /m);
  const [, ...opening] = intro.split('\n\n');
  return [
    { title: 'The argument', texts: textsOf(opening.join('\n\n')), steps: [] },
    ...sections.map((section) => {
      const end = section.indexOf('\n');
      const body = section.slice(end);
      return { title: section.slice(0, end).trim(), texts: textsOf(body), steps: stepsOf(body) };
    }),
  ].filter(({ texts, steps }) => texts.length + steps.length > 0);
}

function textsOf(markdown: string): string[] {
  const blocks = markdown.replaceAll(/^```[\s\S]*?^```$/gm, '').split(/\n{2,}/);
  return blocks
    .map((it) => it.trim())
    .flatMap((it) => (it.startsWith('|') ? rowsOf(it) : [it]))
    .filter((it) => it !== '' && !it.startsWith('!['))
    .map(plain);
}

/** The rows of a table as sentences. */
function rowsOf(table: string): string[] {
  const rows = table.split('\n').slice(2);
  return rows.map((row) => {
    const [what = '', whose = '', verdict = ''] = row
      .split('|')
      .slice(1)
      .map((it) => it.trim());
    return `${what} (${whose}): ${verdict}.`;
  });
}

/** Without the marks of Markdown. */
function plain(text: string): string {
  return text
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*]/g, '')
    .replaceAll(/\s+/g, ' ');
}

const COMMAND = /lockstep -- (replay|sweep) (.*?)\s+# (.*)$/;

function stepsOf(markdown: string): TourStep[] {
  return markdown.split('\n').flatMap((line): TourStep[] => {
    const [, verb, words = '', says = ''] = COMMAND.exec(line) ?? [];
    const parts = words.split(/\s+/);
    if (verb === 'sweep') return [{ scenario: '', with: [], map: parts, says }];
    const [scenario = ''] = parts;
    if (verb !== 'replay') return [];
    return [{ scenario, with: parts.filter((_, i) => parts[i - 1] === '--with'), map: [], says }];
  });
}

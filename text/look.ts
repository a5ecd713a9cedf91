/*
 * The looks of everything that people see in a browser or a picture: one place for colour, type and space. Text and lines have
 * a contrast of at least 4.5 to 1 on paper, in both schemes. The first three tones and the colour of violations stay apart for
 * people who see few colours; `look.test.ts` computes it. A colour never stands alone: a letter, a pattern or a word says the same.
 */

/** Colours on light paper, by the names of their custom properties. */
export const LIGHT: Readonly<Record<string, string>> = {
  // Surfaces and text.
  paper: '#ffffff',
  panel: '#f5f6f8',
  ink: '#1a1f26',
  soft: '#565f6b',
  line: '#dde1e6',
  // What can be pressed, and what is chosen.
  accent: '#1f4596',
  pick: '#1f459616',
  // Verdicts, and what their areas are filled with.
  bad: '#990f22',
  good: '#14643f',
  'bad-fill': '#f7dfe0',
  'good-fill': '#dcefe4',
  'none-fill': '#e6e8eb',
  veil: '#990f2212',
  // Text on a tone, and the tones of tokens in the order in which they appear: 1, 2, 3, 4, 5, 0.
  on: '#ffffff',
  t1: '#1f3f8f',
  t2: '#96611f',
  t3: '#1a7c70',
  t4: '#8146c9',
  t5: '#5c5650',
  t0: '#0a6b8f',
};

/** The same on dark paper. */
export const DARK: Readonly<Record<string, string>> = {
  paper: '#14181d',
  panel: '#1c2128',
  ink: '#e8ebef',
  soft: '#a3acb8',
  line: '#323943',
  accent: '#7fb4f5',
  pick: '#7fb4f524',
  bad: '#f4727a',
  good: '#7fd49b',
  'bad-fill': '#512329',
  'good-fill': '#1d4630',
  'none-fill': '#333a43',
  veil: '#f4727a1a',
  on: '#10141a',
  t1: '#52a7f2',
  t2: '#dcbd45',
  t3: '#9deedd',
  t4: '#c7a2f7',
  t5: '#b9b2a8',
  t0: '#6fcbe6',
};

/** Type and space: sizes and steps that pages choose from, and no others. */
const MEASURES: Readonly<Record<string, string>> = {
  font: 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif',
  mono: 'ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace',
  // Notes in pictures, captions and tables, running text, sentences that matter, verdicts.
  'size-1': '10.5px',
  'size-2': '13px',
  'size-3': '15px',
  'size-4': '18px',
  'size-5': '26px',
  'space-1': '4px',
  'space-2': '8px',
  'space-3': '12px',
  'space-4': '20px',
  'space-5': '32px',
  radius: '5px',
};

function properties(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `--${name}:${value}`)
    .join(';');
}

/**
 * Custom properties for a style sheet: `--ink`, `--size-3`, `--space-2`, and so on. They follow the colour scheme of the reader;
 * paper that is printed is white.
 *
 * @param scope - Selector of what they are for. Default: the whole page.
 */
export function lookCss(scope: string = ':root'): string {
  return (
    `${scope}{color-scheme:light dark;${properties(LIGHT)};${properties(MEASURES)}}` +
    `@media screen and (prefers-color-scheme:dark){${scope}{${properties(DARK)}}}` +
    `@media print{${scope}{color-scheme:light}}`
  );
}

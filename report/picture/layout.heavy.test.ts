import { describe, expect, it } from 'vitest';
import { CATALOGUE, sceneNamed } from '../testing/scenes.js';
import { layout, staticPicture } from './layout.js';
import { type Mark, type Picture, STATIC_VIEW, type TextMark, textWidth } from './marks.js';
import { svgFile } from './svg.js';

const texts = ({ marks }: Picture): TextMark[] => marks.filter((mark) => mark.shape === 'text');
const words = (picture: Picture): string[] => texts(picture).map(({ text }) => text);
const glyphs = ({ marks }: Picture, role: string): Mark[] =>
  marks.filter((mark) => mark.shape === 'glyph' && mark.role === role && mark.seq !== undefined);

describe('the picture of S03', () => {
  const scene = sceneNamed('S03');
  const picture = layout(scene, STATIC_VIEW);

  it('says who violated what, when and why', () => {
    const all = words(picture);
    expect(all).toContain('✗ mutual exclusion');
    expect(all).toContain('c1 and c2 both held a for 9 894 ms: n2 voted twice, it forgot A in the restart.');
    expect(all).toContain('⚡ crashes, restarts at once; A forgotten');
    expect(all).toContain('believes it holds A, until 9 898');
    expect(all).toContain('A 2/5: no quorum');
    expect(all).toContain('✗ both, 4 to 9 898 ms');
    expect(all.filter((text) => text.startsWith('⟨'))).toEqual(['⟨ 9 894 ms ⟩', '⟨ 102 ms ⟩']);
  });

  it('shows each message: 8 arrive and are answered, 2 are lost, 2 votes are refused', () => {
    const of = (role: string): number =>
      picture.marks.filter((it) => it.shape === 'line' && it.role === role && it.seq !== undefined).length;
    expect(of('request')).toBe(8);
    expect(of('reply')).toBe(8);
    expect(glyphs(picture, 'lost')).toHaveLength(2);
    expect(glyphs(picture, 'yes')).toHaveLength(6);
    expect(glyphs(picture, 'no')).toHaveLength(2);
  });

  it('has a band from the beginning of the violation to its end', () => {
    const [band] = picture.marks.filter((mark) => mark.role === 'band');
    const rules = picture.marks.flatMap((mark) =>
      mark.shape === 'line' && mark.role === 'rule' ? (mark.points[0] ?? []) : [],
    );
    expect(band).toMatchObject({ shape: 'box', x: rules[0] });
  });

  it('has no rule and no band with the mitigation', () => {
    const safe = layout(sceneNamed('S03', 'persistence=always'), STATIC_VIEW);
    expect(safe.marks.filter((mark) => mark.role === 'band' || mark.role === 'rule')).toEqual([]);
    expect(words(safe)).toContain('✓ safe');
  });

  it('is the same each time', () => {
    expect(svgFile(layout(sceneNamed('S03'), STATIC_VIEW))).toBe(svgFile(picture));
  });
});

describe('the axes', () => {
  it('put instants in true proportion where time is true', () => {
    const { marks } = layout(sceneNamed('S03'), { ...STATIC_VIEW, axis: 'true' });
    const beliefs = marks.flatMap((mark) =>
      mark.shape === 'box' && mark.role === 'belief' && mark.seq !== undefined ? [mark.w] : [],
    );
    expect(beliefs).toHaveLength(2);
    expect(beliefs[0]).toBeCloseTo(beliefs[1] ?? 0, 3);
  });

  it('give each event a place of its own in the order of events', () => {
    const scene = sceneNamed('S03');
    const { xOf } = layout(scene, { ...STATIC_VIEW, axis: 'order' });
    const xs = scene.events.map((event) => xOf(event.seq));
    expect(new Set(xs).size).toBe(xs.length);
    expect([...xs].sort((a, b) => a - b)).toEqual(xs);
  });

  it('show a process what it could know, and nothing else', () => {
    const picture = layout(sceneNamed('S03'), { ...STATIC_VIEW, axis: 'c1', heading: false });
    const all = words(picture);
    expect(all).toContain('SET A');
    expect(all.join(' ')).not.toContain('B');
    expect(
      picture.marks.filter((mark) => mark.role === 'rule' || mark.role === 'truth' || mark.role === 'key'),
    ).toEqual([]);
  });
});

describe('the events of one instant', () => {
  const scene = sceneNamed('S03');
  const picture = layout(scene, STATIC_VIEW);
  const x = (kind: string, process: string): number =>
    picture.xOf(scene.events.find((it) => it.kind === kind && it.process === process)?.seq ?? -1);

  it('are set apart, a cause before its effect, what a node forgot before what it then does', () => {
    expect(x('crash', 'n2')).toBeLessThan(x('restart', 'n2'));
    const sets = scene.events.filter((it) => it.kind === 'key-set' && it.process === 'n2');
    expect(x('restart', 'n2')).toBeLessThan(picture.xOf(sets[1]?.seq ?? -1));
    expect(x('reply', 'c2')).toBeLessThan(x('claim', 'c2'));
    // To many nodes at once is one thing.
    const sent = scene.events.filter((it) => it.kind === 'send' && it.process === 'c2');
    expect(new Set(sent.map(({ seq }) => picture.xOf(seq))).size).toBe(1);
  });

  it('leave a bar for the vote that was forgotten, which ends at the crash with a mark', () => {
    const bars = picture.marks.filter((it) => it.shape === 'box' && it.role === 'key');
    const forgotten = bars.find((it) => it.words?.includes('forgotten'));
    if (forgotten?.shape !== 'box') throw new Error('there is no such bar');
    expect(forgotten.w).toBeGreaterThan(30);
    expect(forgotten.x + forgotten.w).toBeCloseTo(x('crash', 'n2'));
    expect(picture.marks.some((it) => it.role === 'gone' && it.seq !== undefined)).toBe(true);
  });
});

describe('what led to a violation', () => {
  it('stands out: votes, the crash and both claims; refusals step back', () => {
    const scene = sceneNamed('S03');
    const { marks } = layout(scene, STATIC_VIEW);
    const isDim = (wanted: (mark: Mark) => boolean): boolean[] =>
      marks.filter((it) => it.seq !== undefined && wanted(it)).map((it) => it.dim === true);
    expect(isDim((it) => it.shape === 'box' && (it.role === 'belief' || it.role === 'down'))).toEqual([
      false,
      false,
      false,
    ]);
    expect(isDim((it) => it.role === 'yes')).toEqual(Array(6).fill(false));
    expect(isDim((it) => it.role === 'no')).toEqual([true, true]);
    expect(isDim((it) => it.role === 'lost' && it.shape === 'glyph')).toEqual([false, false]);
  });

  it('and where nothing went wrong nothing is dimmed', () => {
    expect(layout(sceneNamed('S03', 'persistence=always'), STATIC_VIEW).marks.filter((it) => it.dim)).toEqual([]);
  });
});

describe('equal tries', () => {
  const scene = sceneNamed('S47');
  const drawn = (allRetries: boolean): Picture => layout(scene, { ...STATIC_VIEW, allRetries });

  it('are one with their count, or all of them', () => {
    const picture = drawn(false);
    expect(picture.folded).toBeGreaterThan(100);
    const notes = words(picture).filter((it) => it.startsWith('× '));
    const counts = notes.map((it) => Number(/^× (\d+) more tries like this/.exec(it)?.[1]));
    expect(counts.reduce((sum, it) => sum + it, 0)).toBe(picture.folded);
    expect(drawn(true).folded).toBe(0);
    expect(drawn(true).marks.length).toBeGreaterThan(5 * picture.marks.length);
  });
});

describe.each(CATALOGUE.map(({ id }) => [id] as const))('the picture of %s', (id) => {
  const scene = sceneNamed(id);

  it.each(['folded', 'order', 'c1'])('has all it shows within its bounds, by %s', (axis) => {
    const { marks, width, height } = layout(scene, { ...STATIC_VIEW, axis });
    const outside = marks.filter((mark) => {
      const points = mark.shape === 'line' ? mark.points : [[mark.x, mark.y] as const];
      return points.some(([x, y]) => !(x >= 0 && x <= width + 1 && y >= 0 && y <= height));
    });
    expect(outside).toEqual([]);
  });

  it('has no two lanes of one name, and names them where they stay', () => {
    const { marks, gutter } = layout(scene, STATIC_VIEW);
    const names = marks.filter((it): it is TextMark => it.shape === 'text' && it.role === 'name');
    expect(new Set(names.map(({ text }) => text)).size).toBe(names.length);
    for (const { x, text, pinned } of names) expect([pinned, x + textWidth(text, 13) < gutter]).toEqual([true, true]);
  });

  it('has no words over each other among notes and ticks', () => {
    const small = texts(staticPicture(scene)).filter(({ role }) => ['note', 'fault', 'tick', 'bad'].includes(role));
    const byRow = new Map<number, TextMark[]>();
    for (const text of small) byRow.set(text.y, [...(byRow.get(text.y) ?? []), text]);
    for (const row of byRow.values()) {
      const spans = row
        .map((it) => {
          const width = textWidth(it.text, 10);
          const left = it.anchor === 'middle' ? it.x - width / 2 : it.x;
          return { left, right: left + width, text: it.text };
        })
        .sort((a, b) => a.left - b.left);
      const over = spans.filter(({ right }, index) => (spans[index + 1]?.left ?? right) < right - 1);
      expect(over).toEqual([]);
    }
  });
});

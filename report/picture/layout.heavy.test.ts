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
    expect(all).toContain('✗ both');
    expect(all.filter((text) => text.startsWith('⟨'))).toEqual(['⟨ 9 894 ms ⟩', '⟨ 102 ms ⟩']);
  });

  it('shows each message: 8 arrive and are answered, 2 are lost, 2 votes are refused', () => {
    const of = (role: string): number => picture.marks.filter((it) => it.shape === 'line' && it.role === role).length;
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
    const beliefs = marks.flatMap((mark) => (mark.shape === 'box' && mark.role === 'belief' ? [mark.w] : []));
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

import { describe, expect, it } from 'vitest';
import { DARK, LIGHT, lookCss } from './look.js';

type Colour = readonly [number, number, number];

/** How people see who lack one kind of cones, on linear light (Machado, Oliveira and Fernandes 2009, severity 1). */
const EYES: Readonly<Record<string, readonly Colour[]>> = {
  all: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

function linear(hex: string): Colour {
  const at = (place: number): number => {
    const value = Number.parseInt(hex.slice(place, place + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [at(1), at(3), at(5)];
}

function times([a, b, c]: Colour, rows: readonly Colour[]): Colour {
  const [x = 0, y = 0, z = 0] = rows.map((row) => row[0] * a + row[1] * b + row[2] * c);
  return [x, y, z];
}

/** Oklab (Ottosson 2020), in hundredths. */
function oklab(colour: Colour): Colour {
  const [l, m, s] = times(colour, [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
  ]).map(Math.cbrt) as [number, number, number];
  return times(
    [l, m, s],
    [
      [21.04542553, 79.3617785, -0.40720468],
      [197.79984951, -242.8592205, 45.05937099],
      [2.59040371, 78.27717662, -80.8675766],
    ],
  );
}

function distance(a: string, b: string, eyes: readonly Colour[]): number {
  const [x, y] = [a, b].map((it) => {
    const [red, green, blue] = times(linear(it), eyes).map((value) => Math.min(1, Math.max(0, value)));
    return oklab([red ?? 0, green ?? 0, blue ?? 0]);
  });
  return Math.hypot(...[0, 1, 2].map((i) => (x?.[i] ?? 0) - (y?.[i] ?? 0)));
}

function contrast(a: string, b: string): number {
  const [dark = 0, light = 0] = [a, b]
    .map((it) => linear(it).reduce((sum, value, i) => sum + value * ([0.2126, 0.7152, 0.0722][i] ?? 0), 0))
    .sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

const TEXTS = ['ink', 'soft', 'accent', 'bad', 'good', 't1', 't2', 't3', 't4', 't5', 't0'];
const TONES = ['t1', 't2', 't3', 't4', 't5', 't0'];
/** What most pictures show at once. */
const TOLD_APART = ['t1', 't2', 't3', 'bad'];

describe.each([
  ['light', LIGHT],
  ['dark', DARK],
])('the colours of the %s scheme', (_, colours) => {
  const of = (name: string): string => colours[name] ?? '';

  it('can be read on paper and panel, and text on every tone', () => {
    for (const name of TEXTS) {
      for (const under of ['paper', 'panel'])
        expect({ name, under, ok: contrast(of(name), of(under)) >= 4.5 }).toEqual({ name, under, ok: true });
    }
    for (const fill of ['bad-fill', 'good-fill', 'none-fill']) expect(contrast(of('ink'), of(fill))).toBeGreaterThan(7);
    for (const tone of TONES) expect({ tone, ok: contrast(of('on'), of(tone)) >= 4.5 }).toEqual({ tone, ok: true });
  });

  it.each(Object.keys(EYES))('are told apart by eyes with %s', (eyes) => {
    for (const [i, a] of TOLD_APART.entries()) {
      for (const b of TOLD_APART.slice(i + 1)) {
        const apart = distance(of(a), of(b), EYES[eyes] ?? []);
        expect({ a, b, apart: apart >= 8 ? 'yes' : apart }).toEqual({ a, b, apart: 'yes' });
      }
    }
  });
});

it('has the same names in both schemes, and is for one scope alone', () => {
  expect(Object.keys(DARK)).toEqual(Object.keys(LIGHT));
  expect(lookCss('.picture')).not.toContain(':root');
});

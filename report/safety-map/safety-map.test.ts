import { describe, expect, it } from 'vitest';
import type { SafetyMap } from '../../search/safety-map/index.js';
import { FAULT_FREE, type ParameterName, type Point, sweep } from '../../search/safety-map/index.js';
import { ANSI, PLAIN } from '../painter.js';
import { safetyMapLines } from './map.js';
import { safetyMapPage } from './page.js';
import { safetyMapSentence } from './phrases.js';

const MS = 1000;

type Side = readonly [ParameterName, readonly number[]];

function mapOver([x, xs]: Side, [y, ys]: Side, fixed: Partial<Point> = {}): Promise<SafetyMap> {
  return sweep({ x: { name: x, values: xs }, y: { name: y, values: ys }, base: { ...FAULT_FREE, ...fixed } });
}

const drift: Side = ['drift', [0, 2_500, 5_000, 7_500]];

describe('the map', () => {
  it('has one row for each value, greatest on top, and the theory where it changes', async () => {
    const lines = safetyMapLines(await mapOver(['ttl', [100 * MS, 1_000 * MS]], drift), 40, PLAIN);
    expect(lines).toMatchInlineSnapshot(`
      [
        "  drift rate of clocks",
        "  0.75 % │  ·     ×   ",
        "   0.5 % │  ·   ──────",
        "  0.25 % │  ·     ·   ",
        "     0 % │  ·     ·   ",
        "         └────────────",
        "          100 ms 1 000 ms",
        "          TTL",
        "",
        "  · safe   × violated   ○ unavailable   ─ ┼ ┴ where the theory puts the edge",
      ]
    `);
  });

  it('says the same without its colours', async () => {
    const it = await mapOver(['ttl', [1_000 * MS]], drift);
    const painted = safetyMapLines(it, 60, ANSI).join('\n');
    expect(painted).toContain('\u001b[31m');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what colours are.
    expect(painted.replaceAll(/\u001b\[\d+m/g, '')).toBe(safetyMapLines(it, 60, PLAIN).join('\n'));
  });
});

describe('the answer', () => {
  it('names the last safe value and the first violated one, whichever is greater', async () => {
    expect(safetyMapSentence(await mapOver(['ttl', [10_000 * MS]], drift))).toBe(
      'With a TTL of 10 000 ms, the lock is safe with clocks 0.5126 % wrong; with clocks 0.5127 % wrong two clients can hold it at once.',
    );
    const delays: Side = ['restart-delay', [0, 15_000 * MS]];
    expect(safetyMapSentence(await mapOver(['drift', [0]], delays))).toBe(
      'With right clocks, the lock is safe with a crashed voter back after 9 898 ms; with a crashed voter back after 9 897.999 ms two clients can hold it at once.',
    );
  });

  it('tells of effects, of locks that cannot be had, and of columns without any edge', async () => {
    expect(safetyMapSentence(await mapOver(['guard', [250 * MS]], ['write-delay', [0, 400 * MS]]))).toBe(
      'With a guard of 250 ms, the lock is safe with a pause of 249.999 ms; with a pause of 250 ms a write can come after its claim.',
    );
    expect(safetyMapSentence(await mapOver(['nodes', [5]], ['nodes-down', [0, 1, 2, 3]]))).toBe(
      'With 5 nodes, the lock is safe up to 2 nodes down, and unavailable with 3 nodes down.',
    );
    expect(safetyMapSentence(await mapOver(['nodes', [5]], ['nodes-down', [0, 1]]))).toBe(
      'With 5 nodes, the lock is safe all the way from 0 nodes down to 1 node down.',
    );
  });
});

describe('the page', () => {
  it('needs nothing else, and has the answer and every edge in words', async () => {
    const it = await mapOver(['ttl', [1_000 * MS, 10_000 * MS]], drift);
    const commands = [{ title: 'tightest counterexample', command: 'lockstep replay "<a>.json"' }];
    const page = safetyMapPage(it, commands);
    expect(page).toContain(safetyMapSentence(it));
    expect(page).toContain('lockstep replay &quot;&lt;a&gt;.json&quot;');
    expect(page).not.toMatch(/\s(?:src|href)=|@import|url\((?!#)/);
    const rows = [...page.matchAll(/<tr><td>(.*?)<\/td><\/tr>/g)].map(([, cells = '']) => cells.split('</td><td>'));
    expect(rows).toEqual([
      ['1 000 ms', 'safe up to 0.6036 %', 'violated from 0.6037 %', '0.6036 %'],
      ['10 000 ms', 'safe up to 0.5126 %', 'violated from 0.5127 %', '0.5126 %'],
    ]);
  });

  it('has areas, edges and where the reader is, and a read-out that begins there', async () => {
    const it = await mapOver(['ttl', [1_000 * MS, 10_000 * MS]], drift);
    const page = safetyMapPage(it, [], { x: 10_000 * MS, y: 500, label: 'you are <here>' });
    const count = (what: RegExp): number => page.match(what)?.length ?? 0;
    // Two columns, each safe below and violated above, with its edge.
    expect([
      count(/<rect class="safe" x/g),
      count(/<rect class="violated" x/g),
      count(/<circle class="edge" cx="\d+%"/g),
    ]).toEqual([2, 2, 2]);
    expect(page).toContain('>you are &lt;here&gt;</text>');
    const [, json = ''] = /id="safety-map">(.*?)<\/script>/.exec(page) ?? [];
    const { cells, edges, at } = JSON.parse(json);
    expect(cells[0]).toEqual(['safe', 'safe', 'safe', 'violated']);
    expect(edges[1]).toBe('Safe up to 0.5126 %, violated from 0.5127 %.');
    expect(at).toEqual([1, 0]);
  });

  it('says what a map that is mostly violated does and does not mean', async () => {
    const it = await mapOver(['ttl', [1_000 * MS]], ['drift', [0, 10_000, 20_000, 30_000]]);
    expect(safetyMapPage(it, [])).toContain('75 % of the map is beyond the edge: that says how far its axes reach');
  });
});

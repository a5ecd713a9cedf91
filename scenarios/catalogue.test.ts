import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findScenario, loadCatalogue } from './catalogue.js';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import { formatScenario } from './index.js';
import { parseScenario } from './parse.js';
import { variantSchedule } from './variant.js';

describe('a folder of scenarios', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'catalogue-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const url = (): URL => pathToFileURL(`${folder}/`);
  const keep = (file: string, id: string): void => {
    writeFileSync(join(folder, file), formatScenario({ ...parseScenario(everyField), id }));
  };

  test('is read in the order of ids, whatever the files are called', () => {
    keep('a b#1.json', 'S12');
    keep('z.json', 'S3');
    keep('y.json', 'S03b');
    writeFileSync(join(folder, 'notes.txt'), 'not a scenario');
    expect(loadCatalogue(url()).map(({ id }) => id)).toEqual(['S3', 'S03b', 'S12']);
  });

  test('has a slug for each id, which finds it', () => {
    const own = loadCatalogue();
    const slugs = own.map(({ slug }) => slug ?? '');
    expect(slugs.filter((slug) => !/^[a-z0-9-]{6,}$/.test(slug))).toEqual([]);
    expect(new Set(slugs).size).toBe(own.length);
    expect(findScenario('restart-without-persistence').id).toBe('S03');
    expect(() => findScenario('restart-without-persistance')).toThrow('did you mean "restart-without-persistence"?');
  });

  test('has each id once', () => {
    keep('one.json', 'S03');
    keep('two.json', 'S03');
    expect(() => loadCatalogue(url())).toThrowErrorMatchingInlineSnapshot(
      `[InputError: two.json: /id: "S03" is the id of one.json; use another]`,
    );
  });

  test('names the file that is wrong', () => {
    keep('good.json', 'S03');
    writeFileSync(join(folder, 'bad.json'), '{ "schema": "lockstep.sc');
    expect(() => loadCatalogue(url())).toThrowErrorMatchingInlineSnapshot(
      `[ScheduleError: bad.json: the file ends too early, at line 1, column 25; it must be one complete JSON object]`,
    );
  });

  test('is searched by id, with a hint for a near miss', () => {
    for (const id of ['S03', 'S13', 'F-restart']) keep(`${id}.json`, id);
    const catalogue = loadCatalogue(url());
    expect(findScenario('S13', catalogue).id).toBe('S13');
    expect(() => findScenario('s13', catalogue)).toThrowErrorMatchingInlineSnapshot(
      `[InputError: "s13" is not a scenario; did you mean "S13"?]`,
    );
    expect(() => findScenario('f-restrat', catalogue)).toThrowErrorMatchingInlineSnapshot(
      `[InputError: "f-restrat" is not a scenario; did you mean "F-restart"?]`,
    );
    expect(() => findScenario('whatever', catalogue)).toThrowErrorMatchingInlineSnapshot(
      `[InputError: "whatever" is not a scenario; the scenarios are F-restart, S03, S13]`,
    );
    expect(() => findScenario('S03', [])).toThrowErrorMatchingInlineSnapshot(
      `[InputError: "S03" is not a scenario; there are none]`,
    );
  });
});

test('every file of the catalogue is right: to read it with the grammar changes nothing', () => {
  expect(loadCatalogue(new URL('catalogue/', import.meta.url))).toStrictEqual(loadCatalogue());
});

test('every variant in the catalogue can be made', () => {
  for (const scenario of loadCatalogue()) {
    for (const variant of [...scenario.flips, ...scenario.neighbours]) variantSchedule(scenario, variant);
  }
});

test('every scenario says what is next to it, and what prevents it, or why nothing is', () => {
  for (const { id, expect: outcome, flips, noFlips, neighbours, noNeighbours } of loadCatalogue()) {
    expect([id, neighbours.length > 0]).toEqual([id, noNeighbours === undefined]);
    const mayGoWithout = noFlips !== undefined || outcome.verdict === 'safe';
    expect([id, flips.length > 0 || mayGoWithout, flips.length > 0 && noFlips !== undefined]).toEqual([
      id,
      true,
      false,
    ]);
  }
});

test('nothing else in the room needs Node, so that a browser can import it', () => {
  const room = new URL('.', import.meta.url);
  const sources = readdirSync(room).filter((name) => /(?<!\.test)\.ts$/.test(name));
  const needy = sources.filter((name) => /from '(node:|\.\/catalogue)/.test(readFileSync(new URL(name, room), 'utf8')));
  expect(needy).toEqual(['catalogue.ts']);
});

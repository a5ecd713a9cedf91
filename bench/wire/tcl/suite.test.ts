import { describe, expect, it } from 'vitest';
import { reasonFor } from './left-out.js';
import { nameOf, outcomesOf } from './suite.js';

const OUTPUT = `Testing unit/type/string
[ok]: GET (in brackets) (3 ms)
[ok]: GET (in brackets) (4 ms)
[err]: SET in tests/unit/type/string.tcl
Expected '1' to be equal to '2'
    while executing
[ignore]: GETDEL propagate: Tag: needs:repl denied
[err]: can't read "x": no such variable
[1/1 done]: unit/type/string (8 seconds)

                   The End

*** [err]: SET in tests/unit/type/string.tcl
`;

describe('what the suite prints', () => {
  const { tests, left } = outcomesOf(OUTPUT);

  it('is read by test, each once', () => {
    expect([...tests].map(([name, { state }]) => [name, state])).toEqual([
      ['GET (in brackets)', 'passed'],
      ['GET (in brackets) (run 2)', 'passed'],
      ['SET', 'failed'],
      ['outside of tests: can\'t read "x": no such variable', 'failed'],
    ]);
    expect(tests.get('SET')?.text).toBe("Expected '1' to be equal to '2'\n    while executing");
    expect(left).toEqual(['GETDEL propagate: Tag: needs:repl denied']);
    expect(nameOf('GET (in brackets) (run 2)')).toBe('GET (in brackets)');
  });
});

describe('what does not apply', () => {
  it('asks for what is left out with a reason, and nothing else is excused', () => {
    expect(reasonFor(['lpush', 'xinfo'])).toContain('streams');
    expect(reasonFor(['config maxmemory'])).toContain('memory');
    expect(reasonFor(['nope'])).toBeNull();
    expect(reasonFor([])).toBeNull();
  });
});

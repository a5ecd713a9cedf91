import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { describe, expect, it } from 'vitest';
import { lockstep } from '../testing/in-process.js';
import { junitXml } from './junit.js';
import { SUITE } from './testing/suite.js';

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '',
  isArray: (name) => name === 'testcase',
});

describe('junit', () => {
  it('is valid XML whatever the texts are, and says the same as the suite', () => {
    const xml = junitXml(SUITE);
    expect(XMLValidator.validate(xml)).toBe(true);
    const { testsuite } = parser.parse(xml).testsuites;
    expect(testsuite).toMatchObject({ name: 'lockstep check', tests: '4', failures: '1', errors: '1', skipped: '1' });
    expect(testsuite.testcase[0]).toMatchObject({ name: 'mutual exclusion', file: 'a:b,c.json' });
    expect(testsuite.testcase[0].failure.message).toContain('a < b & "c" > d[31m ]]>');
    expect(Object.keys(testsuite.testcase[3])).toEqual(['classname', 'name']);
  });

  it('is not what the validator assumes', () => {
    expect(XMLValidator.validate(junitXml(SUITE).replace('</testcase>', ''))).not.toBe(true);
  });

  it('comes from a search that finds something, alone on stdout', async () => {
    const { code, stdout } = await lockstep(['check', '--demo', '--reporter', 'junit']);
    expect(code).toBe(0);
    expect(XMLValidator.validate(stdout)).toBe(true);
    const [only] = parser.parse(stdout).testsuites.testsuite.testcase;
    expect(only).toMatchObject({
      name: 'mutual exclusion',
      file: expect.stringMatching(/^\.lockstep\/failures\/1-\d+\.json$/),
    });
    expect(only.failure['#text']).toMatch(/n\d voted twice/);
  });

  it('comes from one that finds nothing, and from one that cannot say', async () => {
    const passed = await lockstep(['check', '--runs', '300', '--reporter', 'junit']);
    expect(passed.code).toBe(0);
    expect(parser.parse(passed.stdout).testsuites).toMatchObject({ tests: '3', failures: '0', errors: '0' });
    const vacuous = await lockstep(['check', '--runs', '2', '--faults', 'client-crash=1', '--reporter', 'junit']);
    expect(vacuous.code).toBe(2);
    expect(parser.parse(vacuous.stdout).testsuites).toMatchObject({ failures: '0', errors: '2' });
  });

  it('has a case for each scenario of the catalogue', async () => {
    const { code, stdout } = await lockstep(['replay', '--all', '--reporter', 'junit']);
    const scenarios = JSON.parse((await lockstep(['list', '--json'])).stdout).scenarios.length;
    const { tests, failures } = parser.parse(stdout).testsuites;
    expect(tests).toBe(`${scenarios}`);
    expect(code === 0).toBe(failures === '0');
  });
});

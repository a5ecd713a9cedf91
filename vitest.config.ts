import { availableParallelism } from 'node:os';
import { defineConfig, type ViteUserConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

interface Share {
  readonly maxWorkers: number;
  readonly sequence: { readonly groupOrder: number };
}

/** What needs nothing but the processor, in milliseconds: each worker more would only load all modules once more. */
const QUICK: Share = { maxWorkers: availableParallelism(), sequence: { groupOrder: 0 } };

/**
 * One file more at a time than there are processors: those that wait for servers, browsers and fleets run beside those that
 * need the processor.
 */
const TOGETHER: Share = { maxWorkers: availableParallelism() + 1, sequence: { groupOrder: 1 } };

/** What measures, or plays schedules in real time for minutes: after the others, so that nothing runs beside it. */
const ONE_BY_ONE: Share = { maxWorkers: 1, sequence: { groupOrder: 2 } };

/** Files of minutes, the longest first. Most are short to read, and without a cache vitest begins with the largest files. */
const LONGEST: readonly string[] = [
  'test/documents.long',
  'test/wild.slow',
  'bench/oracle/agreement.slow',
  'libraries/blind.slow',
  'audit/audit.slow',
  'test/pairs.slow',
  'libraries/hostile.slow',
  'libraries/eight-styles.slow',
];

/** Begins with what takes longest, so that nothing long is left over when all else is done. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification): number =>
      LONGEST.findIndex((it) => moduleId.endsWith(`${it}.test.ts`));
    const sorted = await super.sort(files);
    const long = sorted.filter((it) => placeOf(it) >= 0).sort((a, b) => placeOf(a) - placeOf(b));
    return [...long, ...sorted.filter((it) => placeOf(it) < 0)];
  }
}

/** Suites of other projects, by their names. */
const LONGER: string[] = [
  '**/node_modules/**',
  '**/*.slow.test.ts',
  '**/*.long.test.ts',
  '**/*.heavy.test.ts',
  '**/*.prop.test.ts',
  '**/*.redis.test.ts',
  '**/*.browser.test.ts',
  '**/*.shell.test.ts',
];

/**
 * `npm run check` has `unit` and `libraries`, `npm test` has these and all others but `slow`, `audits`, `long` and
 * `real-long`, which are `npm run test:long`. A file chooses by its name.
 */
const config: ViteUserConfig = defineConfig({
  // `lockstep-redlock` is its sources, as for the compiler; without a build.
  resolve: { tsconfigPaths: true },
  test: {
    // Node imports the modules, so that calls between them are as quick as in the built tool. Through the module runner of
    // Vite each goes through a getter, and searches take twice as long.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    execArgv: ['--import', 'tsx'],
    globalSetup: ['./test/own-temporary-folder.mjs'],
    sequence: { sequencer: LongestFirst },
    // Ends what hangs, and nothing else: a busy machine is no failure.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 100_000 } },
    projects: [
      {
        extends: true,
        test: {
          ...QUICK,
          name: 'unit',
          // Most of the time of a quick file goes into loading its modules, and these files change nothing global.
          isolate: false,
          setupFiles: ['./test/leaves-no-trace.ts'],
          include: [
            '{text,core,deviations,scenarios,sim,properties,search,explore,advise,report,wire,campaign,cli,bench,test}/**/*.test.ts',
          ],
          exclude: [...LONGER, '**/*.mock.test.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...QUICK,
          name: 'libraries',
          // All of them replace the same globals, once; clients take most of a second to load.
          isolate: false,
          include: ['{libraries,audit}/**/*.test.ts'],
          exclude: LONGER,
        },
      },
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'mock',
          // Each replaces modules, which takes the module runner.
          experimental: { viteModuleRunner: true },
          include: ['**/*.mock.test.ts'],
          exclude: LONGER,
        },
      },
      // Seconds of the processor each, most of them searches; an engine that is warm makes them in half the time.
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'properties',
          isolate: false,
          setupFiles: ['./test/leaves-no-trace.ts'],
          include: [
            '{core,scenarios,sim,properties,search,explore,report,wire,advise,campaign,cli,bench,test}/**/*.{heavy,prop}.test.ts',
          ],
        },
      },
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'library-searches',
          // As for those above; all of them replace the same globals.
          isolate: false,
          include: ['{libraries,audit}/**/*.{heavy,prop}.test.ts', 'examples/custom-lock/*.test.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'slow',
          include: [
            '{core,deviations,scenarios,sim,properties,search,explore,advise,report,wire,libraries,campaign,cli,bench,test}/**/*.slow.test.ts',
          ],
        },
      },
      // Whole audits, by an engine that is warm.
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'audits',
          isolate: false,
          include: ['audit/**/*.slow.test.ts'],
        },
      },
      // Minutes of servers and browsers: fleets of workers, what the documents tell people to type, and the packed lock in other
      // runtimes and bundlers.
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'long',
          include: [
            '{campaign,cli,examples,test}/**/*.long.test.ts',
            'real/lock/*.long.test.ts',
            'real/replay/{stage,unplayable}.long.test.ts',
          ],
        },
      },
      // Minutes of real nodes: chaos runs, benchmarks, schedules in real time, containers (which replace a module).
      {
        extends: true,
        test: {
          ...ONE_BY_ONE,
          name: 'real-long',
          experimental: { viteModuleRunner: true },
          include: ['real/**/*.long.test.ts'],
          exclude: ['**/node_modules/**', 'real/lock/*.long.test.ts', 'real/replay/{stage,unplayable}.long.test.ts'],
        },
      },
      // Campaigns over a queue on a real Redis; their workers are processes of the build.
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'campaign',
          include: ['campaign/**/*.{redis,browser}.test.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'browser',
          include: ['{report,cli}/**/*.{browser,shell}.test.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...TOGETHER,
          name: 'real',
          // Each has servers of its own, and leaves what is global as it was.
          isolate: false,
          setupFiles: ['./test/leaves-no-trace.ts'],
          include: ['real/**/*.test.ts', '{advise,wire,cli,examples,test}/**/*.redis.test.ts'],
          exclude: LONGER.filter((it) => !it.includes('redis')),
        },
      },
    ],
  },
});

export default config;

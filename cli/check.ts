import type { Judgement } from '../properties/index.js';
import { ANSI, formatCounterexample, PLAIN, preventions, tellingOf, violationSentence } from '../report/index.js';
import type { CheckProgress, CheckResult, Counterexample } from '../search/index.js';
import { formatCount } from '../text/format.js';
import { type CounterexampleJson, checkJson } from './check-json.js';
import { type Plan, planOf } from './check-plan.js';
import { checkSuite } from './check-suite.js';
import { LINE_WIDTH, passText, startLine } from './check-text.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { failureScenario, replayCommand, steppingCommand, writeFailure } from './failure-file.js';
import type { CheckFlags } from './flags.js';
import { hasColour, type Io, say, widthOf, writeJson } from './io.js';
import { pageLine, writePass } from './pass-page.js';
import { ProgressLine } from './progress.js';
import {
  NOTHING_KNOWN,
  type Regressions,
  regressionsText,
  replayRegressions,
  settingsOf,
  standsCommitted,
} from './regressions.js';
import { reportPath, writeReport } from './report-file.js';
import { reporterOf } from './reporters/option.js';
import { isAlone } from './reporters/outcome.js';
import { tellSuite } from './reporters/tell.js';
import { loadScenario } from './scenario-file.js';
import { crewFor } from './workers.js';

/** Searches, and says what came of it. */
export async function check(scenario: string | undefined, flags: CheckFlags, io: Io): Promise<ExitCode> {
  const reporter = reporterOf(flags);
  const isQuiet = isAlone(reporter);
  const plan = planOf(flags, scenario === undefined ? null : loadScenario(scenario, io.cwd).schedule);
  warnOfEvenNodes(plan.faultModel.nodes, io);
  const paint = hasColour(io) ? ANSI : PLAIN;
  // A demonstration is the same each time.
  const isReplaying = flags.regressions !== false && !flags.demo;
  const known = isReplaying ? replayRegressions(flags.regressions || undefined, settingsOf(flags), io) : NOTHING_KNOWN;
  if (!isQuiet) io.stdout.write(regressionsText(known, io, paint));
  if (known.unreproduced.length > 0) return await giveUp(plan, known, flags, io);
  if (!isQuiet) io.stdout.write(startLine(plan, widthOf(io, LINE_WIDTH)));
  const result = await search(plan, io, flags.workers);
  const failure = result.counterexample === null ? null : await failureOf(result.counterexample, plan, flags, io);
  const page = failure === null && flags.report !== undefined ? await passOf(plan, result, flags.report, io) : null;
  if (reporter === 'json') writeJson(io, 'lockstep.check/1', checkJson(plan, result, known, failure, page));
  if (isQuiet) tellSuite(reporter, checkSuite(plan, result, known, failure), io);
  else if (failure === null)
    io.stdout.write(`${passText(plan, result, paint, widthOf(io, LINE_WIDTH))}${pageLine(page)}`);
  else io.stdout.write(`\n${failure.text}`);
  if (reporter === 'github') tellSuite(reporter, checkSuite(plan, result, known, failure), io);
  if (flags.demo && !isQuiet) io.stdout.write(nextSteps(failure !== null, io));
  const code = exitCode(result, flags.demo === true);
  const isPassed = code === Exit.ok || code === Exit.inconclusive;
  return isPassed && standsCommitted(known) ? Exit.violated : code;
}

/** The page for a search that found nothing, where one was asked for. */
async function passOf(plan: Plan, result: CheckResult, name: string, io: Io): Promise<string | null> {
  const { checkPass } = await import('./check-page.js');
  return writePass(name, await checkPass(plan, result, io), io);
}

/** Nothing is searched where what is known is no longer so: it is the simulator or the lock that has changed. */
async function giveUp(plan: Plan, known: Regressions, flags: CheckFlags, io: Io): Promise<ExitCode> {
  const reporter = reporterOf(flags);
  if (reporter === 'default') return Exit.notReproduced;
  const result = { ...(await search({ ...plan, runs: 0 }, io)), reason: 'a known schedule no longer reproduces' };
  if (reporter === 'json') writeJson(io, 'lockstep.check/1', checkJson(plan, result, known, null));
  else tellSuite(reporter, checkSuite(plan, result, known, null), io);
  return Exit.notReproduced;
}

async function search(plan: Plan, io: Io, workers?: number): Promise<CheckResult> {
  const { check: run } = await import('../search/index.js');
  const { inlineFor } = await import('../campaign/inlining.js');
  inlineFor(plan.runs ?? 0);
  const line = new ProgressLine(io);
  const result = await run({
    faultModel: plan.faultModel,
    seed: plan.seed,
    strategy: plan.strategy,
    runs: plan.runs ?? Number.MAX_SAFE_INTEGER,
    ...(plan.budgetMs === null ? {} : { budgetMs: plan.budgetMs }),
    properties: plan.properties,
    insideOnly: plan.insideOnly,
    shrink: plan.shrink,
    keepsDeployment: true,
    ...(await crewFor(workers)),
    signal: io.signal,
    onProgress: (progress) => line.show(progressText(progress, plan)),
  });
  line.end();
  return result;
}

function progressText({ phase, runs, elapsedMs }: CheckProgress, plan: Plan): string {
  if (phase === 'shrinking') return `found a violation in schedule ${formatCount(runs)}; making it small`;
  const rate = runs / Math.max(1, elapsedMs);
  const left = Math.min(
    plan.runs === null ? Number.POSITIVE_INFINITY : (plan.runs - runs) / rate,
    plan.budgetMs === null ? Number.POSITIVE_INFINITY : plan.budgetMs - elapsedMs,
  );
  const of = plan.runs === null ? '' : ` of ${formatCount(plan.runs)}`;
  return (
    `${formatCount(runs)}${of} schedules, ${formatCount(Math.round(rate * 1000))}/s, nothing found, ` +
    `${Math.max(0, left / 1000).toFixed(0)} s left`
  );
}

interface Failure {
  readonly text: string;
  readonly judgement: Judgement;
  readonly counterexample: CounterexampleJson;
}

/** Writes a failure down, and tells of it. */
async function failureOf(counterexample: Counterexample, plan: Plan, flags: CheckFlags, io: Io): Promise<Failure> {
  const { judge } = await import('../properties/index.js');
  const { schedule, property, run, foundEvents, events } = counterexample;
  const { seed } = plan;
  const judgement = judge(schedule, [property], true);
  const violation = judgement.violations.find((it) => it.property === property) ?? counterexample.violation;
  const prevented = preventions(schedule, [property]);
  const sentence = violationSentence(violation, tellingOf(schedule, judgement));
  const scenario = failureScenario({ counterexample, judgement, seed, sentence, preventions: prevented });
  const path = writeFailure(scenario, io);
  const replay = path === null ? null : replayCommand(io, path);
  const where = flags.report ?? path;
  const input = {
    id: scenario.id,
    schedule,
    scenario,
    judgement,
    replay: replay ?? 'none: its file could not be written',
    byHand: path === null ? null : steppingCommand(io, path),
  };
  const report = where === null ? null : (io.writeReport ?? writeReport)(reportPath(where), input, io);
  const paint = hasColour(io) ? ANSI : PLAIN;
  const { kind, atUs, untilUs, resource } = violation;
  return {
    text: formatCounterexample({
      schedule,
      judgement,
      violation,
      run,
      runs: plan.runs,
      seed,
      foundEvents,
      events,
      preventions: prevented,
      explained: counterexample.explained,
      replay,
      report,
      paint,
    }),
    judgement,
    counterexample: {
      property,
      kind,
      schedule: path,
      report,
      events,
      replay,
      run: run + 1,
      hash: judgement.run.hash,
      foundEvents,
      atUs,
      untilUs,
      resource,
      detail: sentence,
      preventedBy: prevented.map((it) => it.mitigation),
      needed: counterexample.explained,
    },
  };
}

function warnOfEvenNodes(nodes: number, io: Io): void {
  if (nodes % 2 !== 0) return;
  const spare = nodes - (Math.floor(nodes / 2) + 1);
  say(
    io,
    `warning: ${nodes} nodes go on with ${spare} of them down, no more than ${nodes - 1} nodes would; use an odd number`,
  );
}

function nextSteps(found: boolean, io: Io): string {
  if (!found) return '\nThis search was expected to find a violation, and found none.\n';
  return (
    `\nnext   ${io.command} check   tries the safe configuration\n` +
    `       ${io.command} list    shows the known scenarios\n`
  );
}

function exitCode(result: CheckResult, isDemo: boolean): ExitCode {
  const { verdict, interrupted } = result;
  if (isDemo && !interrupted) return verdict === 'violated' ? Exit.ok : Exit.notReproduced;
  if (verdict === 'violated') return isDemo ? Exit.ok : Exit.violated;
  if (interrupted) return Exit.interrupted;
  return verdict === 'passed' ? Exit.ok : Exit.inconclusive;
}

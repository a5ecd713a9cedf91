import { type Advice, adviseOn } from '../advise/advice.js';
import { describeAdvised } from '../advise/describe-advised.js';
import { UNKNOWNS } from '../advise/unknowns.js';
import { verdictWords } from '../advise/words.js';
import { deviates } from '../deviations/index.js';
import { ANSI, PLAIN } from '../report/index.js';
import { badge } from './advise-badge.js';
import { adviseJson } from './advise-json.js';
import { type Described, describeSystem } from './advise-system.js';
import { adviceText } from './advise-text.js';
import { writeAdvice } from './advise-witness.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { AdviseFlags } from './flags.js';
import { hasColour, type Io, say, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import {
  NOTHING_KNOWN,
  type Regressions,
  regressionsText,
  replayRegressions,
  settingsOf,
  standsCommitted,
} from './regressions.js';
import { writeNamed } from './write-file.js';

/** Works out what makes a system safe, and answers what it is asked for. */
export async function advise(file: string | undefined, flags: AdviseFlags, io: Io): Promise<ExitCode> {
  const described = await describeSystem(file, flags, io);
  if (described === null) return Exit.interrupted;
  if (flags.save !== undefined)
    writeNamed('--save', flags.save, `${JSON.stringify(described.description, null, 2)}\n`, io.cwd);
  for (const note of described.notes) say(io, note);
  const advice = await workedOut(described, flags, io);
  if (io.signal.aborted) return Exit.interrupted;
  const known = flags.check ? replayRegressions(undefined, mitigationsOf(advice), io) : NOTHING_KNOWN;
  const written = writeAdvice(advice, io);
  if (flags.json) writeJson(io, 'lockstep.advise/1', adviseJson(advice, written, known));
  else {
    const paint = hasColour(io) ? ANSI : PLAIN;
    io.stdout.write(regressionsText(known, io, paint));
    io.stdout.write(adviceText(advice, written, flags.alternatives === true, io));
  }
  if (flags.saveAdvised !== undefined) {
    const after = describeAdvised(described.description, advice.system, advice.advised);
    writeNamed('--save-advised', flags.saveAdvised, `${JSON.stringify(after, null, 2)}\n`, io.cwd);
  }
  await writePages(advice, written, flags, described, io);
  return flags.check ? checkCode(advice, known) : Exit.ok;
}

async function workedOut({ system }: Described, { runs, solve, json, report }: AdviseFlags, io: Io): Promise<Advice> {
  const line = new ProgressLine(io);
  return await adviseOn(system, {
    ...(runs === undefined ? {} : { runs }),
    unknowns: solve ?? UNKNOWNS,
    curves: json === true || report !== undefined,
    signal: io.signal,
    onStep: (step) => line.show(step),
  }).finally(() => line.end());
}

/** A system that is safe as it is, and nothing known that is possible in it. */
function checkCode({ verdict, search }: Advice, known: Regressions): ExitCode {
  if (known.unreproduced.length > 0) return Exit.notReproduced;
  if (verdict !== 'safe' || standsCommitted(known)) return Exit.violated;
  return search.runs > 0 && search.verdict === 'inconclusive' ? Exit.inconclusive : Exit.ok;
}

/** The system as it is, as mitigations of a schedule that is known to fail. */
function mitigationsOf({ system }: Advice): string[] {
  const { nodes, client, network, resource } = system;
  const { settings, profile } = client.policy;
  const weakest = (['none', 'rdb', 'everysec', 'always'] as const).find((it) =>
    nodes.some(({ persistence }) => persistence === it),
  );
  const restarts = nodes.flatMap(({ restartUs }) => (restartUs === null ? [] : [restartUs]));
  const set = settingsOf({
    shrink: false,
    profile,
    nodes: nodes.length,
    ttl: [client.ttlMs],
    driftAllowance: settings.driftPpm,
    targetVotes: settings.votesWanted,
    persistence: nodes.some(({ diskKept }) => !diskKept) ? 'none' : (weakest ?? 'none'),
    ...(restarts.length === 0 ? {} : { restartDelay: Math.min(...restarts) }),
  });
  return [
    ...set,
    `tokens=${deviates(client.policy, 'token-per-call') ? 'call' : 'try'}`,
    ...(network.reordering ? [] : ['link=fifo']),
    ...(client.guardUs === null ? [] : [`guard=${client.guardUs}us`]),
    ...(resource.checksToken && settings.fencing ? ['fencing=quorum', 'resource=fencing'] : []),
  ];
}

async function writePages(
  advice: Advice,
  written: ReturnType<typeof writeAdvice>,
  flags: AdviseFlags,
  described: Described,
  io: Io,
): Promise<void> {
  const tell = (label: string, path: string): void => {
    if (!flags.json) io.stdout.write(`${label.padEnd(8)}${path}\n`);
  };
  if (flags.badge !== undefined) {
    writeNamed('--badge', flags.badge, badge(verdictWords(advice), advice.verdict), io.cwd);
    tell('badge', flags.badge);
  }
  if (flags.report === undefined) return;
  const { advicePage } = await import('./advise-page.js');
  writeNamed('--report', flags.report, advicePage(advice, written, described.file, io), io.cwd);
  tell('report', flags.report);
}

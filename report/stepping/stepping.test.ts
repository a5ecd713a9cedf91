import { describe, expect, it } from 'vitest';
import { judge } from '../../properties/judge.js';
import { parseSchedule, type Schedule } from '../../scenarios/index.js';
import { simulate } from '../../sim/index.js';
import { snapshotOf } from '../run-snapshot.js';
import { CATALOGUE } from '../testing/scenes.js';
import { runOfSteps } from './advance.js';
import { type Choice, choicesOf } from './choices.js';
import { cutAt } from './cut.js';

function named(id: string): Schedule {
  const found = CATALOGUE.find((it) => it.id === id);
  if (found === undefined) throw new Error(`there is no ${id}`);
  return found.schedule;
}

const titles = (choices: readonly Choice[]): string[] =>
  choices.map(({ subject, action }) =>
    typeof subject === 'string'
      ? `${subject} ${action}`
      : `${subject.process} ${subject.detail.operation ?? subject.kind} ${subject.detail.node ?? ''} ${action}`,
  );

/** Takes the choices of these titles, one after the other. */
function taken(schedule: Schedule, ...wanted: readonly string[]): Schedule {
  return wanted.reduce((now, title) => {
    const choices = choicesOf(now);
    const choice = choices[titles(choices).indexOf(title)];
    if (choice === undefined) throw new Error(`"${title}" is none of ${titles(choices).join('; ')}`);
    return choice.take();
  }, schedule);
}

describe('stepping by hand', () => {
  it('leads to the violation of S03, with the verdict of a schedule that replays', () => {
    const asked = taken(cutAt(named('S03'), 0), 'c2 asks for a');
    const arrive = (client: string, ...nodes: string[]): string[] => [
      ...nodes.map((node) => `${client} acquire ${node} arrives`),
      ...nodes.map((node) => `${node} acquire ${node} arrives`),
    ];
    const held = taken(asked, ...arrive('c1', 'n0', 'n1', 'n2'));
    expect(judge(held).verdict).toBe('safe');
    const crashed = taken(held, 'n2 crashes, back at once');
    const ended = taken(crashed, ...arrive('c2', 'n2', 'n3', 'n4'));
    const judgement = judge(runOfSteps(ended));
    expect(judgement.violations.map(({ property }) => property)).toContain('mutual-exclusion');
    const again = parseSchedule(JSON.parse(JSON.stringify(runOfSteps(ended))));
    expect(judge(again).run.hash).toBe(judgement.run.hash);
    const { heading } = snapshotOf(again, judge(again, [], true));
    expect(heading.sentences).toContain(
      'c1 and c2 both held a as the run ends: n2 voted twice, it forgot A in the restart.',
    );
    // The same steps on nodes that keep what they acknowledged: n2 refuses.
    const kept = taken(
      { ...held, cluster: { ...held.cluster, persistence: 'always' } },
      'n2 crashes, back at once',
      ...arrive('c2', 'n2', 'n3', 'n4'),
    );
    expect(judge(runOfSteps(kept)).verdict).toBe('safe');
  });

  it('lets a client check, freeze, and write when its hold has ended', () => {
    const held = cutAt(named('S03'), 2_500);
    const [plan] = held.clients[0]?.locks ?? [];
    expect(plan?.writes ?? []).toEqual([]);
    const frozen = taken(held, 'c1 checks it, to write', 'c1 is frozen');
    expect(titles(choicesOf(frozen)).filter((it) => it.startsWith('c1 '))).toEqual(['c1 goes on']);
    const late = taken(frozen, 'c1 goes on', 'c1 sends its write', 'c1 has its write arrive');
    const kinds = simulate(late, { trace: true }).trace.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind.startsWith('write'))).toEqual(['write-checked', 'write-sent', 'write-arrived']);
  });

  it('loses what is chosen, lets nothing else arrive, and time go on to what happens by itself', () => {
    const start = cutAt(named('S03'), 0);
    const choices = choicesOf(start);
    expect(titles(choices).filter((it) => it.startsWith('c1 acquire'))).toHaveLength(6);
    const lost = taken(start, 'c1 acquire n0 is lost', 'c1 acquire n1 is lost', 'c1 acquire n2 is lost');
    const [tick] = choicesOf(lost).filter(({ group }) => group === 'time');
    const later = tick?.take() ?? lost;
    expect(later.untilUs).toBe(50_000);
    expect(tick?.subject).toMatchObject({ atUs: 50_000, process: 'c1', detail: { operation: 'release' } });
    expect(judge(later).verdict).toBe('safe');
  });

  it('offers what is left to processes that are down', () => {
    const down = taken(cutAt(named('S03'), 0), 'n0 crashes, stays down', 'c1 dies');
    const left = titles(choicesOf(down)).filter((it) => /^(n0|c1) [^a]/.test(it));
    expect(left).toEqual(['c1 restarts', 'n0 restarts']);
    const up = taken(down, 'n0 restarts', 'c1 restarts');
    expect(simulate(up, { trace: true }).trace.map(({ kind }) => kind)).toContain('restart');
  });
});

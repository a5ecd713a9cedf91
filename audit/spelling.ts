import type { Defect } from './defect.js';
import { nameOfPlan, type Plan } from './plan.js';
import { GAP_MS, played } from './played.js';
import { spelledApart } from './shown-defects.js';
import type { Runnable } from './subject.js';
import type { Trial } from './trial.js';

/** A name in the two cases. */
const [LOWER, UPPER] = ['spelling', 'SPELLING'] as const;

const CHANGES_CASE = /\.to(?:Locale)?(?:Lower|Upper)Case\(/;

/** Whether a function names its lock after a name as it is given, and what it does under it after that name in one case. */
export async function differsByCase(subject: Runnable, plan: Plan): Promise<Defect | null> {
  if (!subject.bench.program.texts.some((it) => CHANGES_CASE.test(it))) return null;
  const calls = [LOWER, UPPER].map((named, i) => ({ plan: { ...plan, named }, atMs: 10 + i * GAP_MS }));
  const [one, two] = (await played(subject, calls)).map((it) => it?.trial);
  if (one?.isGranted !== true || two?.isGranted !== true || one.key === null || two.key === null) return null;
  if (one.key === two.key || one.key.toLowerCase() !== two.key.toLowerCase()) return null;
  const others = usedIn(two);
  const same = usedIn(one).find((it) => /spelling/i.test(it) && others.includes(it));
  return same === undefined ? null : spelledApart(nameOfPlan(plan), same, [one.key, two.key]);
}

/** What an acquisition calls with what it is told, and the keys of data that it uses. */
function usedIn({ calls, key, sent }: Trial): readonly string[] {
  return [...calls.map((it) => it.replace(/^\./, '')), ...sent.filter((it) => it.key !== key).map((it) => it.key)];
}

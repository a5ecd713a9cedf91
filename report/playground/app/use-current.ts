import { useEffect, useRef, useState } from 'preact/hooks';
import type { Schedule } from '../../../scenarios/index.js';
import type { Address } from '../address.js';
import { type Stored, scheduleOf } from '../catalogue.js';
import { packed, unpacked } from '../pack.js';
import { messageOf } from './message-of.js';
import type { Shown } from './run.js';

/** What is in the page, and where its address says that it comes from. */
interface Current {
  readonly key: string;
  readonly shown: Shown;
}

/** The run of the page. */
export interface CurrentRun {
  /** `null` for none. */
  readonly shown: Shown | null;
  /** What is wrong with what the address says; empty if nothing. */
  readonly problem: string;
  /** Puts another one in its place. Returns it as an address has it; `null` if another one came meanwhile. */
  readonly put: (schedule: Schedule, about: Partial<Shown>) => Promise<string | null>;
  readonly clear: () => void;
}

const UNNAMED: Omit<Shown, 'schedule'> = { id: '', title: '', story: '', flips: [], also: [] };

/** What the address says is opened; what is put there by hand is there already. */
export function useCurrent(address: Address, scenarios: readonly Stored[]): CurrentRun {
  const [current, setCurrent] = useState<Current | null>(null);
  const [problem, setProblem] = useState('');
  const last = useRef(0);
  const key = keyOf(address);
  useEffect(() => {
    if (key === '' || key === current?.key) return;
    let isOver = false;
    const unlessOver =
      <T>(then: (value: T) => void): ((value: T) => void) =>
      (value) => {
        if (!isOver) then(value);
      };
    open(address, scenarios).then(
      unlessOver((shown) => {
        setProblem('');
        setCurrent({ key, shown });
      }),
      unlessOver((error: unknown) => {
        setCurrent(null);
        setProblem(messageOf(error));
      }),
    );
    return () => {
      isOver = true;
    };
  }, [key]);
  return {
    shown: current?.shown ?? null,
    problem,
    put: async (schedule, about) => {
      const mine = ++last.current;
      const run = await packed(schedule);
      // What is packed later may be there sooner.
      if (mine !== last.current) return null;
      setCurrent({ key: `run ${run}`, shown: { ...UNNAMED, ...about, schedule } });
      setProblem('');
      return run;
    },
    clear: () => {
      setCurrent(null);
      setProblem('');
    },
  };
}

/** Which run an address is about; empty for none. */
export function keyOf({ scenario, run }: Pick<Address, 'scenario' | 'run'>): string {
  return run !== '' ? `run ${run}` : scenario === '' ? '' : `scenario ${scenario}`;
}

async function open({ scenario: name, run, also: counting }: Address, scenarios: readonly Stored[]): Promise<Shown> {
  if (run !== '') return { ...UNNAMED, schedule: await unpacked(run), also: counting };
  const found = scenarios.find(({ id }) => id.toLowerCase() === name.toLowerCase());
  if (found === undefined) throw new Error(`there is no scenario ${JSON.stringify(name)}; the list has all of them`);
  const { id, title, story, flips, also } = found;
  return { schedule: scheduleOf(found), id, title, story, flips, also };
}

import { useRef, useState } from 'preact/hooks';
import type { SafetyMap } from '../../../search/safety-map/index.js';
import { Laboratory } from './laboratory.js';
import type { Found, Job, Told } from './work.js';

/** How far the worker is, and what it came to. */
export type Progress = Exclude<Told, { readonly kind: 'map' | 'problem' }>;

/** What the worker does for the page. */
export interface Work {
  readonly progress: Progress | null;
  readonly map: SafetyMap | null;
  readonly problem: string;
  readonly begin: (job: Job) => void;
  readonly stop: () => void;
  /** Leaves nothing of what was done. */
  readonly clear: () => void;
}

/** @param onFound - Is given each failing run: as it was found, and made small. */
export function useWork(onFound: (found: Found) => void): Work {
  const [progress, setProgress] = useState<Progress | null>(null);
  const [map, setMap] = useState<SafetyMap | null>(null);
  const [problem, setProblem] = useState('');
  const laboratory = useRef<Laboratory | null>(null);
  laboratory.current ??= new Laboratory();
  const { current: worker } = laboratory;
  const onTold = (told: Told): void => {
    if (told.kind === 'map') setMap(told.map);
    if (told.kind === 'problem') setProblem(told.message);
    setProgress(told.kind === 'map' || told.kind === 'problem' ? null : told);
    if (told.kind === 'found') onFound(told);
  };
  const clear = (): void => {
    worker.end();
    setProgress(null);
    setMap(null);
    setProblem('');
  };
  return {
    progress,
    map,
    problem,
    clear,
    begin: (job) => {
      clear();
      setProgress({ kind: 'progress', done: 0, of: 0 });
      worker.begin(job, onTold);
    },
    stop: () => {
      worker.end();
      setProgress(null);
    },
  };
}

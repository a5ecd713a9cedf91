import { useEffect, useState } from 'preact/hooks';
import type { Part, Payload, TraceWindow } from '../payload.js';
import type { RunSnapshot } from '../run-snapshot.js';
import type { Move } from './model.js';

/** The windows of a run that is too long for one page, and the one that is shown. */
export interface Windows {
  readonly part: Part;
  readonly taken: RunSnapshot;
  /** First event of the window that is shown, and the first one behind it. */
  readonly fromSeq: number;
  readonly endSeq: number;
  /** Whether the file with the rest has been given to the page. */
  readonly isOpen: boolean;
  /** What is wrong with the file that was given; empty if nothing. */
  readonly problem: string;
  readonly choose: (file: File) => void;
}

interface Shown {
  readonly taken: RunSnapshot;
  readonly fromSeq: number;
}

/** Follows the selected event through the windows of a run; `null` where all of it is in the page. */
export function useWindows({ source, taken, hash }: Payload, event: number): Windows | null {
  const part = source.kind === 'recording' ? source.part : null;
  const [file, setFile] = useState<File | null>(null);
  const [problem, setProblem] = useState('');
  const [shown, setShown] = useState<Shown | null>(() =>
    part === null || taken === null ? null : { taken, fromSeq: part.fromSeq },
  );
  const place = part?.beside?.places.findLast(({ fromSeq }) => fromSeq <= event);
  useEffect(() => {
    if (file === null || taken === null || place === undefined || place.fromSeq === shown?.fromSeq) return;
    let late = false;
    readWindow(file.slice(place.at, place.at + place.bytes), hash).then(
      (window) => {
        if (!late) setShown({ taken: withWindow(taken, window), fromSeq: window.fromSeq });
      },
      (error: unknown) => {
        setProblem(error instanceof Error ? error.message : String(error));
        setFile(null);
      },
    );
    return () => {
      late = true;
    };
  }, [file, place]);
  if (part === null || shown === null) return null;
  const choose = (chosen: File): void => {
    setProblem('');
    readWindow(chosen.slice(0, part.beside?.places[0]?.bytes ?? 0), hash).then(
      () => setFile(chosen),
      (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)),
    );
  };
  const endSeq = (shown.taken.events.at(-1)?.seq ?? 0) + 1;
  return { part, ...shown, endSeq, isOpen: file !== null, problem, choose };
}

async function readWindow(packed: Blob, hash: string): Promise<TraceWindow> {
  const strange = new Error('this file is not the one that was written with this report');
  let lines: string[];
  try {
    const text = await new Response(packed.stream().pipeThrough(new DecompressionStream('gzip'))).text();
    lines = text.trimEnd().split('\n');
  } catch {
    throw strange;
  }
  const [head, ...events] = lines.map((line) => JSON.parse(line));
  if (head?.schema !== 'lockstep.trace-window/1' || head.hash !== hash) throw strange;
  return { ...head, events };
}

function withWindow(taken: RunSnapshot, { carried, events, claims, names }: TraceWindow): RunSnapshot {
  return { ...taken, events: [...carried, ...events], claims, names, fromUs: events[0]?.atUs ?? 0 };
}

/** The event that a step leads to if that is in another window; `null` if it is in this one. */
export function beyond({ part, fromSeq, endSeq, isOpen }: Windows, at: number, move: Move): number | null {
  if (move === 'violation') {
    const next = part.wrong.find((seq) => seq > at) ?? part.wrong[0];
    return next === undefined || (next >= fromSeq && next < endSeq) ? null : next;
  }
  if (!isOpen) return null;
  if (move === 'next' && at === endSeq - 1) return endSeq < part.total ? endSeq : null;
  return move === 'back' && at === fromSeq && fromSeq > 0 ? fromSeq - 1 : null;
}

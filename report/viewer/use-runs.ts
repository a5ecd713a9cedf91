import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ComparedRun, Payload } from '../payload.js';
import { type Opened, opened as openedOf, rerun, rerunOther } from './model.js';
import { type Engine, startEngine } from './start-engine.js';
import type { Windows } from './windows.js';

/** The runs of a page. */
interface Runs {
  /** `null` until it has started, or where there is none. */
  readonly engine: Engine | null;
  /** As it was written down. */
  readonly written: Opened;
  /** With what was changed in the page. */
  readonly opened: Opened;
  /** What it is compared with; `null` if nothing. */
  readonly beside: Opened | null;
}

/** Runs the schedule of a page again, and once more with each change; a recording stays as it is. */
export function useRuns(
  payload: Payload,
  first: Opened,
  settings: readonly string[],
  windows: Windows | null,
  other: ComparedRun | null,
): Runs {
  const engine = useEngine(payload);
  const written = useMemo(() => {
    if (windows !== null) return openedOf(payload, windows.taken);
    return engine === null || first.stepAt !== null ? first : rerun(engine, payload, []);
  }, [payload, engine, windows?.taken]);
  const opened = useMemo(
    () => reopened(engine, payload, settings, written),
    [payload, engine, written, settings.join(' ')],
  );
  const beside = useMemo(() => otherOpened(engine, other), [engine, other]);
  return { engine, written, opened, beside };
}

/** Starts the engine once the page has been painted, and runs the schedule again; `null` until then, or where there is none. */
function useEngine(payload: Payload): Engine | null {
  const [engine, setEngine] = useState<Engine | null>(null);
  useEffect(() => {
    if (payload.source.kind !== 'schedule') return;
    const timer = setTimeout(() => void startEngine().then((it) => setEngine(() => it)), 0);
    return () => clearTimeout(timer);
  }, [payload]);
  return engine;
}

/** A link may carry settings that make no sense here: then the run is shown as it was written. */
function reopened(engine: Engine | null, payload: Payload, settings: readonly string[], written: Opened): Opened {
  if (settings.length === 0 || engine === null) return written;
  try {
    return rerun(engine, payload, settings);
  } catch {
    return written;
  }
}

/** As it was taken down, and run here once there is an engine; `null` if there is none to compare with yet. */
function otherOpened(engine: Engine | null, other: ComparedRun | null): Opened | null {
  if (other === null) return null;
  if (engine !== null) return rerunOther(engine, other);
  return other.taken === null ? null : openedOf(other, other.taken);
}

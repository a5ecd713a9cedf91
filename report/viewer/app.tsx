import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { describeEvent } from '../event-words.js';
import type { Other, Payload } from '../payload.js';
import { layout } from '../picture/layout.js';
import { STATIC_VIEW } from '../picture/marks.js';
import { Bar, nextAxis } from './bar.js';
import { DiffView, type Side } from './diff-view.js';
import { Header } from './header.js';
import { Inspector } from './inspector.js';
import { type Action, actionOf, Help, keysFor } from './keys.js';
import type { Place } from './link.js';
import { indexOf, moved, type Opened, rerun } from './model.js';
import { PictureView } from './picture-view.js';
import { Settings } from './settings.js';
import type { Engine } from './start-engine.js';
import { EventTable } from './table.js';
import { usePlace, useWidth } from './use-place.js';
import { useRuns } from './use-runs.js';
import { WindowBar } from './window-bar.js';
import { beyond, useWindows } from './windows.js';

/** The whole page. Its state is its address. */
export function App({ payload, first }: { readonly payload: Payload; readonly first: Opened }): JSX.Element {
  const other = payload.source.kind === 'schedule' ? payload.source.other : null;
  const [place, setPlace] = usePlace(other !== null);
  const width = useWidth();
  const [help, setHelp] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const windows = useWindows(payload, place.event);
  const { engine, written, opened, beside } = useRuns(payload, first, place.settings, windows, other);
  const { scene } = opened;
  const at = selectedIn(opened, place);
  const event = scene.events[at];
  const shown = useMemo(() => filtered(opened, place.filter), [opened, place.filter]);
  const { axis, zoom } = place;
  const keys = useMemo(() => keysFor(payload.source), [payload]);
  // Drawn for the run as it was written.
  const chances = opened === written ? payload.likelihood : null;
  const picture = useMemo(
    () => layout(scene, { ...STATIC_VIEW, heading: false, axis, zoom, width, likelihood: chances }),
    [scene, axis, zoom, width, chances],
  );
  const go = (change: Partial<Place>): void => setPlace((now) => ({ ...now, ...change }));
  const pick = (seq: number): void => go({ event: seq });
  const act = (action: Action): void => {
    if (action === 'axis') go({ axis: nextAxis(axis, scene.clients) });
    else if (action === 'diff') go({ diff: !place.diff });
    else if (action === 'help') setHelp(!help);
    else if (action === 'wider') go({ zoom: Math.min(16, zoom * 1.5) });
    else if (action === 'narrower') go({ zoom: Math.max(0.001, zoom / 1.5) });
    else if (action === 'filter') field.current?.focus();
    else {
      // From where the page is by then: keys may come faster than it is painted.
      setPlace((now) => {
        const from = selectedIn(opened, now);
        const far = windows === null ? null : beyond(windows, scene.events[from]?.seq ?? 0, action);
        return { ...now, event: far ?? scene.events[moved(opened, shown, from, action)]?.seq ?? now.event };
      });
    }
  };
  useKeys(keys, act);
  const on: Action[] = [...(place.diff ? ['diff' as const] : []), ...(help ? ['help' as const] : [])];
  const bar = { keys, place, clients: scene.clients, pressed: new Set(on), field, onAction: act, onGo: go };
  const sides = sidesOf(opened, written, beside, other);
  return (
    <>
      <Header payload={payload} opened={opened} written={written} />
      <main>
        <Changes payload={payload} engine={engine} settings={place.settings} onGo={go} />
        <Bar {...bar} />
        {help ? <Help keys={keys} /> : null}
        {windows === null ? null : <WindowBar windows={windows} event={place.event} onGo={pick} />}
        <PictureView picture={picture} selected={event ?? null} onPick={pick} />
        {place.diff ? <DiffView {...sides} view={{ axis, zoom, width }} onPick={pick} /> : null}
        <div class="below">
          <Inspector opened={opened} event={event} onPick={pick} />
          <EventTable scene={scene} shown={shown} at={at} onPick={pick} />
        </div>
      </main>
      <p class="spoken" role="status">
        {event === undefined ? '' : `${event.process} ${describeEvent(event, scene)}`}
      </p>
    </>
  );
}

/** Does what a key stands for. */
function useKeys(keys: ReturnType<typeof keysFor>, act: (action: Action) => void): void {
  useEffect(() => {
    const onKey = (it: KeyboardEvent): void => {
      const action = actionOf(it, keys);
      if (action === undefined) return;
      it.preventDefault();
      act(action);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });
}

/** Mitigations and parameters to try; nothing where a recording cannot be run again. */
function Changes(props: {
  readonly payload: Payload;
  readonly engine: Engine | null;
  readonly settings: readonly string[];
  readonly onGo: (change: Partial<Place>) => void;
}): JSX.Element | null {
  const { payload, engine, settings, onGo } = props;
  if (payload.source.kind !== 'schedule') return null;
  const change = (wanted: readonly string[]): string => {
    if (engine === null) return 'a moment: the engine is starting';
    try {
      rerun(engine, payload, wanted);
      onGo({ settings: wanted });
      return '';
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  const { mitigations } = payload.source;
  return <Settings offered={mitigations} known={engine?.MITIGATIONS ?? []} settings={settings} onChange={change} />;
}

/** The run that this one is compared with: another schedule, or the same as it was written. */
function sidesOf(
  opened: Opened,
  written: Opened,
  beside: Opened | null,
  other: Other | null,
): { readonly a: Side; readonly b: Side; readonly mine: 'a' | 'b' } {
  const { settings } = opened;
  const having = settings.length === 0 ? '' : `with ${settings.join(' and ')}`;
  if (beside !== null && other !== null) {
    const [name, its] = other.names;
    const mine = having === '' ? name : `${name} ${having}`;
    return { a: { opened, name: mine }, b: { opened: beside, name: its }, mine: 'a' };
  }
  return { a: { opened: written, name: 'as written' }, b: { opened, name: having || 'now' }, mine: 'b' };
}

/** Opens at the first violation if the address names no event. */
function selectedIn(opened: Opened, place: Place): number {
  return place.event < 0 ? moved(opened, [], 0, 'violation') : indexOf(opened.scene, place.event);
}

/** Places of the events in which all words of the filter occur. */
function filtered({ scene }: Opened, filter: string): number[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return scene.events.map((_, index) => index);
  return scene.events.flatMap((event, index) => {
    const text = `${event.process} ${event.kind} ${describeEvent(event, scene)}`.toLowerCase();
    return wanted.every((word) => text.includes(word)) ? [index] : [];
  });
}

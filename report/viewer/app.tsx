import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { eventWords } from '../event-words.js';
import type { Other, Payload } from '../payload.js';
import { layout } from '../picture/layout.js';
import { STATIC_VIEW } from '../picture/marks.js';
import { DiffView, type Side } from './diff-view.js';
import { Header } from './header.js';
import { Inspector } from './inspector.js';
import { type Action, actionOf, Help, keysFor, Toolbar } from './keys.js';
import { fragmentOf, type Place, placeOf } from './link.js';
import { indexOf, moved, type Opened, opened as openedOf, rerun, rerunOther } from './model.js';
import { PictureView } from './picture-view.js';
import { Settings } from './settings.js';
import { type Engine, startEngine } from './start-engine.js';
import { EventTable } from './table.js';
import { WindowBar } from './window-bar.js';
import { beyond, useWindows } from './windows.js';

/** The whole page. Its state is its address. */
export function App({ payload, first }: { readonly payload: Payload; readonly first: Opened }): JSX.Element {
  const other = payload.source.kind === 'schedule' ? payload.source.other : null;
  const comparing = other !== null;
  const [place, setPlace] = useState<Place>(() => placeOf(location.hash, comparing));
  const [help, setHelp] = useState(false);
  const [width, setWidth] = useState(() => document.documentElement.clientWidth - 8);
  const field = useRef<HTMLInputElement>(null);
  const engine = useEngine(payload);
  const windows = useWindows(payload, place.event);
  const written = useMemo(() => {
    if (windows !== null) return openedOf(payload, windows.taken);
    return engine === null || first.stepAt !== null ? first : rerun(engine, payload, []);
  }, [payload, engine, windows?.taken]);
  const opened = useMemo(
    () => reopened(engine, payload, place.settings, written),
    [payload, engine, written, place.settings.join(' ')],
  );
  const beside = useMemo(() => otherOpened(engine, other), [engine, other]);
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
  useEffect(() => {
    // The address is where the page is; the back button is not for single steps, and browsers want to be told rarely.
    const timer = setTimeout(() => history.replaceState(null, '', fragmentOf(place, comparing)), 100);
    return () => clearTimeout(timer);
  }, [place]);
  useEffect(() => {
    const onHash = (): void => setPlace(placeOf(location.hash, comparing));
    const onSize = (): void => setWidth(document.documentElement.clientWidth - 8);
    addEventListener('hashchange', onHash);
    addEventListener('resize', onSize);
    return () => {
      removeEventListener('hashchange', onHash);
      removeEventListener('resize', onSize);
    };
  }, []);
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
  const change = (settings: readonly string[]): string => {
    if (engine === null) return 'a moment: the engine is starting';
    try {
      rerun(engine, payload, settings);
      go({ settings });
      return '';
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  return (
    <>
      <Header payload={payload} opened={opened} written={written} />
      <main>
        {payload.source.kind === 'schedule' ? (
          <Settings
            offered={payload.source.mitigations}
            known={engine?.MITIGATIONS ?? []}
            settings={place.settings}
            onChange={change}
          />
        ) : null}
        <div class="bar">
          <Toolbar
            keys={keys}
            onAction={act}
            pressed={new Set<Action>([...(place.diff ? ['diff' as const] : []), ...(help ? ['help' as const] : [])])}
          />
          <label class="axis">
            axis{' '}
            <select value={axis} onChange={(it) => go({ axis: it.currentTarget.value })}>
              {axes(scene.clients).map((name) => (
                <option key={name} value={name}>
                  {axisWords(name)}
                </option>
              ))}
            </select>
          </label>
          <label class="filter">
            filter{' '}
            <input
              ref={field}
              type="search"
              value={place.filter}
              placeholder="c1, crash, SET…"
              onInput={(it) => go({ filter: it.currentTarget.value })}
              onKeyDown={(it) => {
                if (it.key === 'Escape' || it.key === 'Enter') it.currentTarget.blur();
              }}
            />
          </label>
        </div>
        {help ? <Help keys={keys} /> : null}
        {windows === null ? null : <WindowBar windows={windows} event={place.event} onGo={pick} />}
        <PictureView picture={picture} selected={event ?? null} onPick={pick} />
        {place.diff ? (
          <DiffView {...sidesOf(opened, written, beside, other)} view={{ axis, zoom, width }} onPick={pick} />
        ) : null}
        <div class="below">
          <Inspector opened={opened} event={event} onPick={pick} />
          <EventTable scene={scene} shown={shown} at={at} onPick={pick} />
        </div>
      </main>
      <p class="spoken" role="status">
        {event === undefined ? '' : `${event.process} ${eventWords(event, scene)}`}
      </p>
    </>
  );
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

/** As it was taken down, and run here once there is an engine; `null` if there is none to compare with yet. */
function otherOpened(engine: Engine | null, other: Other | null): Opened | null {
  if (other === null) return null;
  if (engine !== null) return rerunOther(engine, other);
  return other.taken === null ? null : openedOf(other, other.taken);
}

/** Whoever did not say what to look at wants to see what went wrong. */
function selectedIn(opened: Opened, place: Place): number {
  return place.event < 0 ? moved(opened, [], 0, 'violation') : indexOf(opened.scene, place.event);
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

function axes(clients: readonly string[]): string[] {
  return ['folded', 'true', 'order', ...clients];
}

function nextAxis(axis: string, clients: readonly string[]): string {
  const all = axes(clients);
  return all[(all.indexOf(axis) + 1) % all.length] ?? 'folded';
}

function axisWords(name: string): string {
  const words: Readonly<Record<string, string>> = {
    folded: 'folded time',
    true: 'true time',
    order: 'order of events',
  };
  return words[name] ?? `as ${name} saw it`;
}

/** Places of the events in which all words of the filter occur. */
function filtered({ scene }: Opened, filter: string): number[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return scene.events.map((_, index) => index);
  return scene.events.flatMap((event, index) => {
    const text = `${event.process} ${event.kind} ${eventWords(event, scene)}`.toLowerCase();
    return wanted.every((word) => text.includes(word)) ? [index] : [];
  });
}

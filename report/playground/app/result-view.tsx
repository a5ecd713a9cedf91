import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Schedule } from '../../../scenarios/index.js';
import { formatSchedule } from '../../../scenarios/write.js';
import type { Scene } from '../../picture/scene.js';
import { runOfSteps } from '../../stepping/advance.js';
import { cutAt } from '../../stepping/cut.js';
import { Inspector } from '../../viewer/inspector.js';
import { beginning, indexOf, type Opened } from '../../viewer/model.js';
import { EventTable } from '../../viewer/table.js';
import { type Address, PANELS, type Panel } from '../address.js';
import { Drawn } from './drawn.js';
import { EditPanel } from './edit-panel.js';
import { messageOf } from './message-of.js';
import { Mitigations } from './mitigations.js';
import { opened as openedOf, type Shown } from './run.js';
import { StepPanel } from './step-panel.js';

const PANEL_WORDS: Readonly<Record<Panel, string>> = {
  events: 'Events',
  step: 'Step by hand',
  edit: 'Edit the schedule',
};

type Go = (change: Partial<Address>) => void;

/** A run: what came of it, what would have prevented it, its picture, and what can be done with it. */
export function ResultView(props: {
  readonly shown: Shown;
  readonly address: Address;
  readonly onGo: Go;
  readonly onSchedule: (schedule: Schedule, change: Partial<Address>) => void;
}): JSX.Element {
  const { shown, address, onGo, onSchedule } = props;
  const { opened, problem } = useMemo(() => tryOpen(shown, address.with), [shown, address.with.join(' ')]);
  if (opened === null) return <p class="problem">{problem}</p>;
  const { scene } = opened;
  const at = address.event < 0 ? beginning(opened) : indexOf(scene, address.event);
  const event = scene.events[at];
  const pick = (seq: number): void => onGo({ event: seq });
  return (
    <>
      <Verdict shown={shown} opened={opened} problem={problem} />
      <Mitigations shown={shown} verdict={opened.verdict} settings={address.with} onGo={onGo} />
      <Drawn opened={opened} at={at} onPick={pick} />
      <Panels scene={scene} name={shown.id} panel={address.panel} onGo={onGo} />
      <div class="panel" role="tabpanel" id="panel" aria-labelledby={`tab-${address.panel}`}>
        {address.panel === 'events' ? (
          <div class="below">
            <Inspector opened={opened} event={event} onPick={pick} />
            <EventTable scene={scene} shown={scene.events.map((_, i) => i)} at={at} onPick={pick} />
          </div>
        ) : null}
        {address.panel === 'step' ? (
          <StepPanel
            scene={scene}
            atUs={event?.atUs ?? 0}
            onSchedule={(schedule) => onSchedule(schedule, { panel: 'step' })}
            onCut={() => onSchedule(runOfSteps(cutAt(scene.schedule, event?.atUs ?? 0)), { panel: 'step' })}
          />
        ) : null}
        {address.panel === 'edit' ? (
          <EditPanel schedule={scene.schedule} onSchedule={(schedule) => onSchedule(schedule, { panel: 'edit' })} />
        ) : null}
      </div>
    </>
  );
}

function Panels(props: {
  readonly scene: Scene;
  readonly name: string;
  readonly panel: Panel;
  readonly onGo: Go;
}): JSX.Element {
  const { scene, name, panel, onGo } = props;
  const turn = (event: KeyboardEvent): void => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    const next = PANELS[PANELS.indexOf(panel) + by];
    if (by === 0 || next === undefined) return;
    onGo({ panel: next });
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="panels">
      <div role="tablist" aria-label="What to do with this run">
        {PANELS.map((it) => (
          <button
            type="button"
            role="tab"
            key={it}
            id={`tab-${it}`}
            aria-controls="panel"
            aria-selected={it === panel}
            tabIndex={it === panel ? 0 : -1}
            onKeyDown={turn}
            onClick={() => onGo({ panel: it })}
          >
            {PANEL_WORDS[it]}
          </button>
        ))}
      </div>
      <Download schedule={scene.schedule} name={name} />
    </div>
  );
}

/** With the settings of the address; without them, and the reason, where they make no sense. */
function tryOpen(
  shown: Shown,
  settings: readonly string[],
): { readonly opened: Opened | null; readonly problem: string } {
  try {
    return { opened: openedOf(shown, settings), problem: '' };
  } catch (error) {
    const problem = messageOf(error);
    return settings.length === 0 ? { opened: null, problem } : { ...tryOpen(shown, []), problem };
  }
}

function Verdict(props: { readonly shown: Shown; readonly opened: Opened; readonly problem: string }): JSX.Element {
  const { shown, opened, problem } = props;
  const { heading } = opened.scene;
  const bad = heading.verdict === 'bad';
  return (
    <div class="verdict">
      {shown.title === '' ? null : (
        <p class="id">
          {shown.id === '' ? '' : `${shown.id} · `}
          {shown.title}
        </p>
      )}
      <h2 class={bad ? 'bad' : 'good'} data-verdict={opened.verdict} data-hash={opened.hash}>
        {bad ? '✗' : '✓'} {heading.title}
        {opened.settings.length > 0 ? <span class="with"> with {opened.settings.join(' and ')}</span> : null}
      </h2>
      {heading.sentences.map((it) => (
        <p key={it} class="sentence">
          {it}
        </p>
      ))}
      {problem === '' ? null : (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <p class="config">{heading.config}</p>
      {shown.story === '' ? null : (
        <details class="story">
          <summary>The story</summary>
          <p>
            {shown.story} {shown.story.endsWith('…') ? <code>lockstep replay {shown.id}</code> : null}
          </p>
        </details>
      )}
    </div>
  );
}

/** Saves the schedule as a file, which `lockstep replay` takes. */
function Download({ schedule, name }: { readonly schedule: Schedule; readonly name: string }): JSX.Element {
  const save = (): void => {
    const url = URL.createObjectURL(new Blob([formatSchedule(schedule)], { type: 'application/json' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = `${name === '' ? 'schedule' : name}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return (
    <button type="button" class="download" onClick={save}>
      Download for <code>lockstep replay</code>
    </button>
  );
}

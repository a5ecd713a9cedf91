import type { JSX } from 'preact';
import { becameOf } from '../became.js';
import type { Payload } from '../payload.js';
import type { Opened } from './model.js';

interface HeaderProps {
  readonly payload: Payload;
  readonly opened: Opened;
  readonly written: Opened;
}

/** Verdict and one sentence, and what everybody asks first. */
export function Header({ payload, opened, written }: HeaderProps): JSX.Element {
  const { heading } = opened.scene;
  const bad = heading.verdict === 'bad';
  const isChanged = opened.settings.length > 0;
  const became = isChanged ? becameOf(written.scene, opened.scene) : null;
  const { source } = payload;
  return (
    <header>
      <p class="id">
        {payload.id} · {isChanged ? 'what if, on the same schedule' : payload.title}
        {source.kind === 'recording' ? ' · a recording' : ''}
      </p>
      <h1 class={bad ? 'bad' : 'good'} data-verdict={opened.verdict}>
        {bad ? '✗' : '✓'} {heading.title}
        {isChanged ? <span class="with"> with {opened.settings.join(' and ')}</span> : null}
      </h1>
      {became === null ? null : <p class="became">{became}</p>}
      {became !== null && !bad
        ? null
        : heading.sentences.map((it) => (
            <p key={it} class="sentence">
              {it}
            </p>
          ))}
      <Answers opened={opened} prevented={isChanged || source.kind === 'recording' ? null : source.prevented} />
    </header>
  );
}

/** Who held the lock, who else, from when to when, and what would have prevented it; why is in the sentence. */
function Answers(props: { readonly opened: Opened; readonly prevented: readonly string[] | null }): JSX.Element | null {
  const { opened, prevented } = props;
  const { answers } = opened.scene.heading;
  if (answers === null) return null;
  const rows: readonly (readonly [string, string])[] = [
    ['held by', answers.holder],
    ['and by', answers.other],
    ['went wrong', answers.when],
    ...(prevented === null
      ? []
      : [['prevented by', prevented.join(' or ') || 'none of the mitigations that were tried'] as const]),
  ];
  return (
    <dl class="answers">
      {rows.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt> <dd>{text}</dd>
        </div>
      ))}
      <div class="spoken">
        <dt>why</dt> <dd>{answers.why}</dd>
      </div>
    </dl>
  );
}

/** The configuration, how likely it was, the story, and what the page can vouch for. */
export function About({ payload, opened, written }: HeaderProps): JSX.Element {
  const { source, counterfactual, likelihood } = payload;
  return (
    <section class="about" aria-label="About this run">
      <h2>About this run</h2>
      {source.kind === 'recording' ? (
        <p class="recording">
          <strong>A recording.</strong> This page shows what was taken down, and cannot run it again: {source.why}
        </p>
      ) : null}
      <p class="config">{opened.scene.heading.config}</p>
      {source.kind === 'schedule' && source.other !== null ? (
        <p class="config">
          compared with {source.other.id} · {source.other.title}: <code>{source.other.replay}</code>
        </p>
      ) : null}
      {payload.story === '' ? null : <p>{payload.story}</p>}
      {counterfactual === null ? null : <p>{futuresLine(counterfactual)}</p>}
      {likelihood === null ? null : (
        <details class="model">
          <summary>What the chance in the picture is a share of</summary>
          <p>{likelihood.model}</p>
        </details>
      )}
      <p>
        To see it again: <code>{payload.replay}</code>
      </p>
      {source.kind === 'schedule' && source.byHand !== null ? (
        <p>
          To change it, and to step through it by hand: <code>{source.byHand}</code>
        </p>
      ) : null}
      <p class="faint" data-hash={opened.hash} data-run={opened.stepAt === null ? 'taken' : 'here'}>
        {vouched(payload, opened, written)}
      </p>
    </section>
  );
}

/** Each mitigation on the same futures of the run. */
function futuresLine({ schedules, rows }: NonNullable<Payload['counterfactual']>): string {
  const words = rows.map(({ mitigation, violated, unavailable }) => {
    const price = unavailable === 0 ? '' : `, ${unavailable} unavailable`;
    return `${mitigation === '' ? 'as written' : `with ${mitigation}`} ${violated} violated${price}`;
  });
  return `Of ${schedules}: ${words.join(' · ')}`;
}

function vouched(payload: Payload, opened: Opened, written: Opened): string {
  if (payload.source.kind === 'recording') return '';
  if (opened.stepAt === null) return `Trace hash when the report was written: ${payload.hash}.`;
  if (opened.settings.length > 0) return `Run in this page with the settings above: trace hash ${opened.hash}.`;
  return written.hash === payload.hash
    ? `Run again in this page: trace hash ${written.hash}, the same as when the report was written.`
    : `Run again in this page, with another trace hash than when the report was written: ${written.hash}, not ${payload.hash}.`;
}
